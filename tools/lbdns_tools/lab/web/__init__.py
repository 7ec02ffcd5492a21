"""The web hosts of a lab: pages and CGI programs, Apache, and the lbdns agent."""

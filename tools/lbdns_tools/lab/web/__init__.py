"""The software on a lab's web hosts: pages, CGI programs, Apache, and the lbdns agent."""

"""The web hosts of a lab: their pages and CGI programs, their Apache, their agent."""

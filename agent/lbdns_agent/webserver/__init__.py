"""The web server on this host: its status page, listening sockets and processes."""

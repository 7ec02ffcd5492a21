"""The web server of this host: its status page, listening sockets and processes."""

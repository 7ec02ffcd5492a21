"""The web server of this host: its status page, its listening sockets, its processes."""

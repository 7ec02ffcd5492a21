"""lbdns: the load-aware authoritative DNS server, and what all its programs share."""

__version__ = "0.1.0"

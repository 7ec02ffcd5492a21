"""lbdns: the load-aware authoritative DNS server."""

__version__ = "0.1.0"

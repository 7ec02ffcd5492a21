"""Front ends, which send clients to servers: lbdns, HAProxy and nginx."""

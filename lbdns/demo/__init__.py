"""``lbdns demo``: a complete farm on the loopback interface of one machine."""

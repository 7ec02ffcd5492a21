"""``lbdns-load``, a load generator that simulates web clients. All statistics include failed requests."""

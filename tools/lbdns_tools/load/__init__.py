"""The load generator ``lbdns-load``, which simulates web clients. All statistics include failed requests."""

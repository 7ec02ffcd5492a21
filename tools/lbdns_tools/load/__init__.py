"""The load generator ``lbdns-load`` simulates web clients; its statistics include requests that fail."""

"""The load generator ``lbdns-load``: clients that look names up, connect and send requests; failures count."""

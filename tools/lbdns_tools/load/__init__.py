"""The load generator ``lbdns-load``, which simulates web clients and includes failed requests in its statistics."""

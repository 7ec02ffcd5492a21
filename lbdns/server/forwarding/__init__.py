"""Forwarding: relays the queries of allowed clients to upstream servers."""

"""Finds this host's default gateway, and measures the round-trip time to it with ICMP echo requests."""

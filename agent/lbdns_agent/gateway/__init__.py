"""Finds this host's default gateway, and measures the round-trip time of ICMP echoes to it."""

"""Finds the default gateway of this host, and measures the round-trip time of ICMP echoes to the gateway."""

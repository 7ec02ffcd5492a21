"""The default gateway of this host, and the round trip of an ICMP echo to it."""

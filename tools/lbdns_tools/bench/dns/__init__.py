"""Benchmarks of the DNS server: comparisons, latency, endurance, floods, start-up time and amplification."""

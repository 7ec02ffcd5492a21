"""Benchmarks of the DNS server: speed beside other servers, latency, endurance, floods, start, amplification."""

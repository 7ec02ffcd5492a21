"""Benchmarks of the DNS server: comparison with other servers, latency, endurance, floods, start-up, amplification."""

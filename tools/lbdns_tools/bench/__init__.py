"""Benchmarks of lbdns. ``python -m lbdns_tools.bench list`` lists all benchmarks."""

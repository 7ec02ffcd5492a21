"""Benchmarks: `python -m lbdns_tools.bench list` names them."""

"""Demand sources, which measure how many requests arrive and how busy the servers are."""

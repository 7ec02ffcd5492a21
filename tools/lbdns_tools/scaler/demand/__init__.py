"""Demand sources: how many requests arrive, and how busy the servers are."""

"""Scaling policies: pure functions from measured demand to the number of servers that should be in service."""

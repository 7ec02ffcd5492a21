"""Replays of traces with scaling policies, and their costs."""

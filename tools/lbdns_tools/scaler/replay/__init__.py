"""Replays traces with scaling policies, and calculates the costs of the policies."""

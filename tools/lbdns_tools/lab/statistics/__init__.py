"""Computes statistics from the outcomes of a study: ratios, variation, verdicts on requirements, and queueing
models."""

"""Computes statistics from a study's outcomes: ratios, variation, verdicts on demands, and queueing models."""

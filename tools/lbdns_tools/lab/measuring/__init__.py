"""Measures the cases of a study, samples CPU and memory use, and writes CSV files."""

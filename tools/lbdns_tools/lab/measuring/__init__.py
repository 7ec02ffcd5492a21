"""Measurements in a lab: cases, CPU and memory samples, CSV files."""

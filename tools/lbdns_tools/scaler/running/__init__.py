"""The running scaler: its loop, its record of past rounds, and its status."""

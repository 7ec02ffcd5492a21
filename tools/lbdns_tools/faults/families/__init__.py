"""The faults, one module per family."""

"""The faults, with one module per family of faults."""

"""The tools that measure lbdns: load generator, simulator, lab, calibration, benchmarks, fuzzing."""

__version__ = "0.1.0"

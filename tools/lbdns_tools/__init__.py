"""Tools for measuring and testing lbdns: load generator, simulator, lab, calibration, benchmarks and fuzzer."""

__version__ = "0.1.0"

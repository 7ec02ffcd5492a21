"""Code that the agent and the collector share: reports, keys, endpoints, errors, logging.

This package must run on Python 3.9.
"""

__version__ = "0.1.0"

"""A directory for PYTHONPATH that contains a sitecustomize.py, with which Python works under a faked clock."""

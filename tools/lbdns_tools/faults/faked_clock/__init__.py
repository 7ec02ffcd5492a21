"""A directory for PYTHONPATH, whose sitecustomize.py makes Python work with a faked clock."""

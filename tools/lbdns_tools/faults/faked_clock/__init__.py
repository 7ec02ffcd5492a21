"""A folder for PYTHONPATH: its sitecustomize.py makes Python work with a faked clock."""

"""Builds what users install: wheels, the agent as one file, and Debian and RPM packages."""

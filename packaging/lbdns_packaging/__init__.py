"""Builds what users install: wheels, the agent as one file, and packages of Debian and RPM."""

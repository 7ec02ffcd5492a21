"""Reads control groups (versions 1 and 2), whose limits apply instead of the host's."""

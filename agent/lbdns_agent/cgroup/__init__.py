"""Reads control groups (versions 1 and 2), whose limits replace the host's."""

"""Reads control groups (versions 1 and 2), whose limits take precedence over the host's."""

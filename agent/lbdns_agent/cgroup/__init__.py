"""Reads control groups (versions 1 and 2), whose limits take precedence over those of the host."""

"""Backups of the state directory: the archive's format, and the code that writes, verifies and restores archives."""

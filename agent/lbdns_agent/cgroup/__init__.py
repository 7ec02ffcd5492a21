"""Control groups (versions 1 and 2), whose limits replace those of the host."""

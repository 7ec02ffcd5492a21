"""Control groups, version 1 and 2: their limits replace those of the host."""

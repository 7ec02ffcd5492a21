"""The studies that can be done with one command, one a file."""

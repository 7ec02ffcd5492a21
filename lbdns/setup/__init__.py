"""The files and the steps of a new farm, for ``lbdns init``."""

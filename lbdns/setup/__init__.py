"""The implementation of ``lbdns init``: the files of a new farm, and the next steps for the administrator."""

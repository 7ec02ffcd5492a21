"""``lbdns-calibrate``: computes a score's weights and limits from measurements of a farm with each metric alone."""

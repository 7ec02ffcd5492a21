"""``lbdns-calibrate``: finds weights and limits for a score, from what a farm achieves by each metric alone."""

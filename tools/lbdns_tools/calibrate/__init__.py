"""``lbdns-calibrate``: finds weights and limits for a score by measuring how a farm performs with each metric alone."""

"""``lbdns-calibrate``: finds weights and limits for a score by measuring a farm with each metric alone."""

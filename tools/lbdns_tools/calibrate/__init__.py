"""``lbdns-calibrate``: finds weights and limits of a score, from what each metric alone achieves on a farm."""

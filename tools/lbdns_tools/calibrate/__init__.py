"""``lbdns-calibrate``: computes a score's weights and limits by trying each metric alone on a farm."""

"""``lbdns-scaler demo``: a farm that grows and shrinks with its load, on the loopback interface."""

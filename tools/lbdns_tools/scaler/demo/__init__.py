"""``lbdns-scaler demo``: a farm on the loopback interface that grows and shrinks with its load."""

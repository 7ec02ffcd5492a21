"""``lbdns demo``: the whole of lbdns on the loopback of one machine, to try."""

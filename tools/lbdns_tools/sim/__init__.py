"""The simulator ``lbdns-sim``, which runs lbdns's policies with simulated servers and clients in virtual time."""

"""The simulator ``lbdns-sim``, which runs the policies of lbdns with simulated servers and clients in virtual time."""

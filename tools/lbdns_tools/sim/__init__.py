"""The simulator ``lbdns-sim`` runs lbdns's policies with simulated servers, agents and clients in virtual time."""

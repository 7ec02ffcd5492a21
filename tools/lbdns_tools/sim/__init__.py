"""The simulator ``lbdns-sim``: lbdns's own policies with simulated servers, agents and clients, in virtual time."""

"""``lbdns-sim``: the product's own choosing against simulated servers, agents and clients, in virtual time."""

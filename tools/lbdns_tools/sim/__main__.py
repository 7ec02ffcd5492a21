"""``python -m lbdns_tools.sim``: another way to run ``lbdns-sim``."""

from lbdns_tools.sim.sim_command import main

if __name__ == "__main__":
    main()

"""The entry point of ``python -m lbdns_tools.sim``, which runs ``lbdns-sim``."""

from lbdns_tools.sim.sim_command import main

if __name__ == "__main__":
    main()

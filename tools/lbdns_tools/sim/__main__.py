"""Runs the program ``lbdns-sim`` as ``python -m lbdns_tools.sim``."""

from lbdns_tools.sim.sim_command import main

if __name__ == "__main__":
    main()

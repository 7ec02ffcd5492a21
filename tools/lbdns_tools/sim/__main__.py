"""``python -m lbdns_tools.sim``: the same as ``lbdns-sim``."""

from lbdns_tools.sim.cli import main

if __name__ == "__main__":
    main()

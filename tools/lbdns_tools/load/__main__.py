"""``python -m lbdns_tools.load``: the same as ``lbdns-load``."""

from lbdns_tools.load.cli import main

if __name__ == "__main__":
    main()

"""``python -m lbdns_tools.load``: the same as ``lbdns-load``."""

from lbdns_tools.load.load_command import main

if __name__ == "__main__":
    main()

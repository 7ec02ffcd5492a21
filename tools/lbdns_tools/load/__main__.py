"""``python -m lbdns_tools.load``: another way to run ``lbdns-load``."""

from lbdns_tools.load.load_command import main

if __name__ == "__main__":
    main()

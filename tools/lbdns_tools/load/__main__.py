"""The entry point of ``python -m lbdns_tools.load``, which runs ``lbdns-load``."""

from lbdns_tools.load.load_command import main

if __name__ == "__main__":
    main()

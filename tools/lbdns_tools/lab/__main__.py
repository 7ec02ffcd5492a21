"""``python -m lbdns_tools.lab``: the same as ``lbdns-lab``."""

from lbdns_tools.lab.cli import main

if __name__ == "__main__":
    main()

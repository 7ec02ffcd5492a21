"""Runs the command ``lbdns-lab`` as ``python -m lbdns_tools.lab``."""

from lbdns_tools.lab.lab_command import main

if __name__ == "__main__":
    main()

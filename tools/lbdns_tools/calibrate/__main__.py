"""Runs the command ``lbdns-calibrate`` as ``python -m lbdns_tools.calibrate``."""

from lbdns_tools.calibrate.cli import main

if __name__ == "__main__":
    main()

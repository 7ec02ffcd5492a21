"""``python -m lbdns_tools.calibrate``: the same as lbdns-calibrate."""

from lbdns_tools.calibrate.cli import main

if __name__ == "__main__":
    main()

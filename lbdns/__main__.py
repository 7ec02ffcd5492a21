"""``python -m lbdns`` is the program ``lbdns``."""

from lbdns.cli import main

main()

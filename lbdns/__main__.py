"""``python -m lbdns`` runs the ``lbdns`` command."""

from lbdns.cli import main

main()

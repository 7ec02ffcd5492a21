"""``python -m lbdns_collector`` runs the ``lbdns-collector`` command."""

from lbdns_collector.cli import main

if __name__ == "__main__":
    main()

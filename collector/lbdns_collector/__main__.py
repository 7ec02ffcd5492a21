"""``python -m lbdns_collector`` runs the command ``lbdns-collector``."""

from lbdns_collector.cli import main

if __name__ == "__main__":
    main()

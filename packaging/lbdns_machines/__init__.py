"""Boots machines with systemd on one host, installs the packages on them, and uses lbdns as an administrator would."""

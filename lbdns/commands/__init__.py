"""The commands of ``lbdns``; lbdns.cli lists them."""

"""The commands of ``lbdns``, one a file; lbdns.cli lists them."""

"""The subcommands of ``lbdns``, one module per subcommand; ``lbdns.cli`` lists all of them."""

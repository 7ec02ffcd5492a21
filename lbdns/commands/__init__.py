"""The subcommands of ``lbdns``, one module for each; ``lbdns.cli`` lists all subcommands."""

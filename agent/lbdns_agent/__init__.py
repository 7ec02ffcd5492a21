"""The lbdns agent: measures one host and sends reports to the collectors at fixed intervals."""

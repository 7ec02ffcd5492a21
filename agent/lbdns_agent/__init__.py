"""lbdns-agent: measures one host and sends reports to the collectors on a fixed schedule, with very little overhead."""

"""lbdns-agent: measures one host and reports to the collectors on a fixed schedule, at very little cost."""

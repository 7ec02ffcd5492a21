"""lbdns-agent: measures one host and tells the collectors, at a fixed cadence and at next to no cost."""

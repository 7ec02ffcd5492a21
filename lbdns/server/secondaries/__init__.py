"""Secondary name servers: NOTIFY messages to them, and the SOA serials that they receive."""

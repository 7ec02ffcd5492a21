"""Secondary name servers: sends them NOTIFY messages, and advances the SOA serials that they receive."""

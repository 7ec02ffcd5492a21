"""Secondary name servers: NOTIFY, and the serials that they are served."""

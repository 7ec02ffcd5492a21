"""Other name servers with a copy of a zone: telling them, and the serials they go by."""

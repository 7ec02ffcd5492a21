"""The life cycle of a server, from the request to the provider until it is deleted."""

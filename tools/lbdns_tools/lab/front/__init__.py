"""What stands before the web hosts of the lab: the DNS server, balancers, caching resolvers."""

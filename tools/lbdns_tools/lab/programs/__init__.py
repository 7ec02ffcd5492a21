"""The programs that run in a lab: lbdns, balancers (HAProxy, nginx, Pound), caching resolvers, and Apache and the lbdns
agent on web hosts."""

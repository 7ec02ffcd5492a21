"""The programs between clients and web hosts: lbdns, balancers (HAProxy, nginx, Pound) and caching resolvers."""

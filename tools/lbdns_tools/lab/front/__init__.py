"""The programs in front of a lab's web hosts: lbdns, balancers (HAProxy, nginx, Pound) and caching resolvers."""

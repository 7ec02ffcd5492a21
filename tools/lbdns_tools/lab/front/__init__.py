"""The programs between the clients and the web hosts: lbdns, balancers (HAProxy, nginx, Pound) and caching
resolvers."""

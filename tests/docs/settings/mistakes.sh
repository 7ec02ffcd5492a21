#!/bin/sh
# Writes a configuration with the mistakes that docs/tasks/run-server.md shows
mkdir -p /etc/lbdns/zones
cat > /etc/lbdns/lbdns.toml << 'END'
[server]
workres = 2

[[zone]]
name = "hobbit"
file = "zones/hobbit.zone"

[[pool]]
name = "web"
members = ["gandalf", "frdo"]
zone = "hobbit"

[[zone]]
name = "elf"
file = "zones/elf.zone"
END
cat > /etc/lbdns/zones/hobbit.zone << 'END'
$TTL 1h
@ SOA ns hostmaster 1 1h 15m 1w 5m
@ NS ns
ns A 192.0.2.53
gandalf A 192.0.2.1
frodo A 192.0.2.2
END
cat > /etc/lbdns/zones/elf.zone << 'END'
$TTL 1h
@ SOA ns hostmaster 1 1h 15m 1w 5m
@ NS ns
ns A 192.0.2.53


legolas A 192.0.2.300
END

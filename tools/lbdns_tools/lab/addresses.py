"""Who is where in a lab: its machines, with the names of their namespaces and their addresses. Pure.

The networks are those for tests of networks (RFC 2544, 198.18.0.0/15) and of no one else's network (RFC 4193): an
address of the lab that got out would go nowhere.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from lbdns_tools.lab.farm import Farm

NETWORK4: Final = ipaddress.IPv4Network("198.18.0.0/15")
NETWORK6: Final = ipaddress.IPv6Network("fd00:198:18::/64")
HUB: Final = "hub"  # the namespace with the bridge all are joined by, which is everybody's gateway to nowhere
DNS: Final = "dns"
#: Which number in the network each kind of machine begins at
_FIRST: Final = {"hub": 1, "dns": 53, "web": 257, "proxy": 513, "resolver": 769, "client": 1025}
#: Addresses of a client host: each has some 28,000 ports, and a connection's port stays taken for a minute
CLIENT_ADDRESSES: Final = 8


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a lab. ``kind`` is hub, dns, web, proxy, resolver or client; the first address is its own."""

    name: str
    kind: str
    addresses4: tuple[str, ...]
    address6: str

    @property
    def address(self) -> str:
        return self.addresses4[0]


def machines(farm: Farm) -> tuple[Machine, ...]:
    """All of a farm's, the hub first. Names are unique: those of the web hosts are the farm's own."""
    names = {
        "web": [host.name for host in farm.hosts],
        "proxy": list(farm.proxies),
        "resolver": [f"resolver{number}" for number in range(1, farm.resolvers + 1)],
        "client": [f"client{number}" for number in range(1, farm.clients + 1)],
    }
    found = [_machine(HUB, "hub", 0), _machine(DNS, "dns", 0)]
    found += [_machine(name, kind, place) for kind, of in names.items() for place, name in enumerate(of)]
    return tuple(found)


def _machine(name: str, kind: str, place: int) -> Machine:
    count = CLIENT_ADDRESSES if kind == "client" else 1
    first = _FIRST[kind] + place * count
    addresses = tuple(str(NETWORK4[first + number]) for number in range(count))
    return Machine(name, kind, addresses, str(NETWORK6[first]))

"""The machines of a lab with their IPv4 and IPv6 addresses.

The networks are 198.18.0.0/15, reserved for benchmarks (RFC 2544), and a unique local prefix (RFC 4193): no router
forwards packets to them, should any leave the lab.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm

NETWORK4: Final = ipaddress.IPv4Network("198.18.0.0/15")
NETWORK6: Final = ipaddress.IPv6Network("fd00:198:18::/64")
HUB: Final = "hub"  # the machine with the bridge that joins all others; their gateway, which leads nowhere
DNS: Final = "dns"
#: The number in the network of the first machine of each kind
_FIRST: Final = {"hub": 1, "dns": 53, "web": 257, "proxy": 513, "resolver": 769, "client": 1025}
#: Addresses of a client host: an address has about 28,000 ports, and each is in use for a minute after its connection
CLIENT_ADDRESSES: Final = 8


@dataclass(frozen=True, slots=True)
class LabMachine:
    """A machine of a lab. ``kind`` is hub, dns, web, proxy, resolver or client; the first address is the main one."""

    name: str
    kind: str
    addresses4: tuple[str, ...]
    address6: str

    @property
    def address(self) -> str:
        return self.addresses4[0]


def machines(farm: LabFarm) -> tuple[LabMachine, ...]:
    """Return the machines of a farm, the hub first. Their names are unique; web hosts have the names from the farm."""
    names = {
        "web": [host.name for host in farm.hosts],
        "proxy": list(farm.proxies),
        "resolver": [f"resolver{number}" for number in range(1, farm.resolvers + 1)],
        "client": [f"client{number}" for number in range(1, farm.clients + 1)],
    }
    found = [_machine(HUB, "hub", 0), _machine(DNS, "dns", 0)]
    found += [_machine(name, kind, place) for kind, of in names.items() for place, name in enumerate(of)]
    return tuple(found)


def _machine(name: str, kind: str, place: int) -> LabMachine:
    count = CLIENT_ADDRESSES if kind == "client" else 1
    first = _FIRST[kind] + place * count
    addresses = tuple(str(NETWORK4[first + number]) for number in range(count))
    return LabMachine(name, kind, addresses, str(NETWORK6[first]))

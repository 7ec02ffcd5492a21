"""Describes a lab's farm: the DNS names, the web hosts with their CPU limits, and the addresses of all machines."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

#: The names of the zone and of its only pool
ZONE: Final = "hobbit"
POOL: Final = "web"
#: Owner name in the zone -> policy (docs/background/choosing.md)
NAMES: Final = {
    "best": "best", "best.score": "best_score", "round.robin": "round_robin", "weighted": "weighted",
    "least.charged": "least_charged", "two.choices": "two_choices",
}  # fmt: skip
#: Owner name of the pool that sends clients to their nearest site first
BEST_SITES: Final = "best.sites"
HTTP_PORT: Final = 80
HTTPS_PORT: Final = 443
#: Balancers that can stand in front of the web hosts, by program name
PROXIES: Final = ("haproxy", "nginx", "pound")
#: The lab's networks: the benchmarking range (RFC 2544) and a unique local prefix (RFC 4193). Routers on the Internet
#: do not forward packets with these addresses
NETWORK4: Final = ipaddress.IPv4Network("198.18.0.0/15")
NETWORK6: Final = ipaddress.IPv6Network("fd00:198:18::/64")
HUB: Final = "hub"  # the machine whose bridge joins all others; as their gateway, it leads to no other network
DNS: Final = "dns"
#: The host number of the first machine of each kind within NETWORK4 and NETWORK6
_FIRST: Final = {"hub": 1, "dns": 53, "web": 257, "proxy": 513, "resolver": 769, "client": 1025}
#: Addresses per client host: each has about 28,000 ports, and a port stays in use for a minute after its connection
CLIENT_ADDRESSES: Final = 8


def site_owner(site: str) -> str:
    """Return the owner name in the zone to which lbdns answers with the best member of one site."""
    return f"{site}.site"


@dataclass(frozen=True, slots=True)
class WebHost:
    """A web host limited to ``cpu`` cores (usually less than one) and ``memory`` bytes (0 means no limit).

    ``workers`` is the number of Apache processes (MaxRequestWorkers). Each process serves one connection at a time.
    Further connections wait in the accept queue. ``site`` is the site where the host is, or empty.
    """

    name: str
    cpu: float
    memory: int = 0
    workers: int = 50
    site: str = ""


@dataclass(frozen=True, slots=True)
class LabFarm:
    """The description of the farm that a lab builds.

    ``clients`` is the number of hosts that generate load. ``resolvers`` is the number of caching resolvers between
    clients and lbdns. Resolvers cache each answer for its TTL, or for ``resolver_min_ttl`` seconds if the TTL is
    shorter. ``proxies`` contains names from PROXIES. ``interval`` is the time between an agent's reports, in seconds.
    If ``agents_inside`` is set, each agent runs under its host's CPU quota. An agent uses the same amount of CPU time
    on every host. On a host with a tenth of the CPU, the agent's share of the quota is therefore ten times as large.
    ``check`` is the pool's check. If ``alarms`` is not set, agents send no alarms and do not watch their web servers.
    If the hosts have sites, the client hosts are at these sites in turn, and a round trip between a client and a web
    host takes ``near_s`` seconds if both are at one site, and otherwise ``far_s``.
    """

    hosts: tuple[WebHost, ...]
    clients: int = 1
    proxies: tuple[str, ...] = ()
    resolvers: int = 0
    resolver_min_ttl: int = 0
    interval: float = 1.0
    agents_inside: bool = False
    check: str = "off"
    alarms: bool = True
    joining: str = ""  # pattern for the names of further hosts that may join the pool, such as web-*; empty: none
    score: str = "headroom"  # by which the policy best_score chooses
    cpu_period: float = 0.1  # s; a host may use its CPU quota once per period; the kernel's default
    keep_alive: bool = False  # whether hosts keep connections open for further requests
    tls: bool = False  # whether hosts also serve HTTPS
    php: bool = False  # whether hosts run PHP programs, and memcached
    near_s: float = 0.005
    far_s: float = 0.060

    @property
    def host_names(self) -> tuple[str, ...]:
        return tuple(host.name for host in self.hosts)

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the sites, in the order of their first hosts."""
        return tuple(dict.fromkeys(host.site for host in self.hosts if host.site))

    def hosts_at(self, site: str) -> tuple[WebHost, ...]:
        return tuple(host for host in self.hosts if host.site == site)

    @property
    def cpu(self) -> float:
        """The total number of cores across all web hosts."""
        return sum(host.cpu for host in self.hosts)


@dataclass(frozen=True, slots=True)
class LabMachine:
    """A lab machine. ``kind`` is hub, dns, web, proxy, resolver or client. ``address`` is the first IPv4 address.

    ``site`` is the site of a web host or of a client, if the farm has sites.
    """

    name: str
    kind: str
    addresses4: tuple[str, ...]
    address6: str
    site: str = ""

    @property
    def address(self) -> str:
        return self.addresses4[0]


def machines(farm: LabFarm) -> tuple[LabMachine, ...]:
    """Return a farm's machines, with the hub first. Machine names are unique. A web host's machine name is its name in
    the farm."""
    names = {
        "web": [host.name for host in farm.hosts],
        "proxy": list(farm.proxies),
        "resolver": [f"resolver{number}" for number in range(1, farm.resolvers + 1)],
        "client": [f"client{number}" for number in range(1, farm.clients + 1)],
    }
    found = [_machine(HUB, "hub", 0), _machine(DNS, "dns", 0)]
    sites = {"web": [host.site for host in farm.hosts], "client": farm.sites}
    for kind, of in names.items():
        at = sites.get(kind) or ("",)
        found += [_machine(name, kind, place, at[place % len(at)]) for place, name in enumerate(of)]
    return tuple(found)


def _machine(name: str, kind: str, place: int, site: str = "") -> LabMachine:
    count = CLIENT_ADDRESSES if kind == "client" else 1
    first = _FIRST[kind] + place * count
    addresses = tuple(str(NETWORK4[first + number]) for number in range(count))
    return LabMachine(name, kind, addresses, str(NETWORK6[first]), site)

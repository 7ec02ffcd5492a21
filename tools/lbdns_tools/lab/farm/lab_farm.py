"""The description of a lab's farm: web hosts with their CPU share, balancers, resolvers, clients, and its DNS names."""

from __future__ import annotations

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
HTTP_PORT: Final = 80
#: Balancers that can stand in front of the web hosts, by program name
PROXIES: Final = ("haproxy", "nginx", "pound")


@dataclass(frozen=True, slots=True)
class WebHost:
    """A web server with its limits: ``cpu`` in cores, usually less than one; ``memory`` in bytes, 0 for no limit.

    ``workers`` is the number of Apache processes (MaxRequestWorkers). Each serves one connection at a time; further
    connections wait to be accepted.
    """

    name: str
    cpu: float
    memory: int = 0
    workers: int = 50


@dataclass(frozen=True, slots=True)
class LabFarm:
    """Everything that a lab is built from.

    ``clients`` is the number of hosts that generate load, ``resolvers`` that of caching resolvers between clients and
    lbdns, which keep answers for at least ``resolver_min_ttl`` seconds (0: for the TTL). ``proxies`` are names from
    PROXIES. ``interval`` is the time between an agent's reports in seconds. ``agents_inside`` puts each agent under
    its host's CPU quota; an agent costs the same there, but that is ten times as large a share of a host scaled down
    to a tenth.
    """

    hosts: tuple[WebHost, ...]
    clients: int = 1
    proxies: tuple[str, ...] = ()
    resolvers: int = 0
    resolver_min_ttl: int = 0
    interval: float = 1.0
    agents_inside: bool = False
    cpu_period: float = 0.1  # s in which a host may use its CPU quota once; the kernel's default

    @property
    def cpu(self) -> float:
        """The cores of all web hosts together."""
        return sum(host.cpu for host in self.hosts)

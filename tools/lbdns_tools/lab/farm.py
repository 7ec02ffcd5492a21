"""What a farm in the lab is: web hosts with their share of a processor, what stands in front of them, clients. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The name of the pool's zone, of its pool, and what clients ask for by policy
ZONE: Final = "hobbit"
POOL: Final = "web"
#: Owner name in the zone -> policy (docs/choosing.md)
NAMES: Final = {
    "best": "best", "best.score": "best_score", "round.robin": "round_robin", "weighted": "weighted",
    "least.charged": "least_charged", "two.choices": "two_choices",
}  # fmt: skip
HTTP_PORT: Final = 80
#: Balancers that can stand in front, by the name of their program
PROXIES: Final = ("haproxy", "nginx", "pound")


@dataclass(frozen=True, slots=True)
class WebHost:
    """One web server. ``cpu`` are cores, a part of one most often; ``memory`` are bytes, 0 for no limit.

    ``workers`` are Apache's processes (MaxRequestWorkers), each of which serves one connection at a time; more clients
    than that wait to be accepted.
    """

    name: str
    cpu: float
    memory: int = 0
    workers: int = 50


@dataclass(frozen=True, slots=True)
class Farm:
    """Everything that a lab is built from.

    ``clients`` are hosts that load comes from, ``resolvers`` caching resolvers between clients and lbdns
    (``resolver_min_ttl`` seconds are kept even if the TTL is 0; 0 does what the TTL says). ``proxies`` are of PROXIES.
    ``interval`` are seconds between two reports of an agent. ``agents_inside`` puts each agent under its host's own
    quota; outside it costs the same, but not of a processor that is scaled down to a tenth.
    """

    hosts: tuple[WebHost, ...]
    clients: int = 1
    proxies: tuple[str, ...] = ()
    resolvers: int = 0
    resolver_min_ttl: int = 0
    interval: float = 1.0
    agents_inside: bool = False
    cpu_period: float = 0.1  # s; in which a host may use its quota, the kernel's default

    @property
    def cpu(self) -> float:
        """Cores of all hosts together."""
        return sum(host.cpu for host in self.hosts)

"""Defines the scenario of a simulation (farm, requests, clients, reports and failures) and the named farms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from lbdns.config.pool_section import MAX_SPEED_GAIN
from lbdns.scores import DEFAULT_SCORE
from lbdns.scores.score import Term

WORKERS: Final = 256  # requests that a web server processes at once: Apache's MaxRequestWorkers
BACKLOG: Final = 511  # further connections that wait: Apache's ListenBacklog
DEADLINE: Final = 10.0  # s; a request without a response within this time fails, and counts as this long


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A web server. ``speed`` is the speed of one core. The capacity is ``speed * cores`` seconds of work per second.

    With a ``quota``, the server may use at most this many CPU seconds per second, and stands still whenever it has used
    up its share of a period.
    """

    name: str
    speed: float = 1.0
    cores: float = 1.0
    workers: int = WORKERS
    backlog: int = BACKLOG
    background: float = 0.0  # constant number of runnable tasks of other work
    site: str = ""  # its site; empty if the farm has no sites
    quota: float = 0.0  # CPU seconds per second, as of a control group; 0: no limit
    backup: bool = False  # a member of the backup pool; the servers of the pool itself come first

    @property
    def usable_cores(self) -> float:
        """The cores that the server can use over a long time."""
        return min(self.cores, self.quota) if self.quota else self.cores

    @property
    def capacity(self) -> float:
        return self.speed * self.usable_cores


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage: a server, or each server of a site, fails at ``start`` and recovers at ``end`` (in seconds).

    With ``service_only``, only the web server fails, and connections are refused. The agent continues to report, but
    without the values from server-status. With ``page_only``, the web server works, but not its server-status page.
    """

    server: str
    start: float
    end: float = float("inf")
    service_only: bool = False
    page_only: bool = False


@dataclass(frozen=True, slots=True)
class Surge:
    """A flash crowd: requests arrive at ``factor`` times the usual rate from ``start`` to ``end`` (in seconds). If
    ``site`` is not empty, only those of the clients near this site."""

    start: float
    end: float
    factor: float
    site: str = ""


@dataclass(frozen=True, slots=True)
class OtherWork:
    """Other work: a host runs ``tasks`` additional tasks from ``start`` to ``end`` (in seconds)."""

    server: str
    start: float
    end: float
    tasks: float


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Slower cores: a host's cores run at ``factor`` times their speed from ``start`` to ``end`` (in seconds)."""

    server: str
    start: float
    end: float
    factor: float


@dataclass(frozen=True, slots=True)
class SimulatedClients:
    """The clients of a scenario, including the arrival of requests and the caching of answers.

    With the kind ``open``, requests arrive as a Poisson process, and each request follows a separate lookup. With the
    kind ``caches``, requests arrive as a Poisson process, and lookups go through caching resolvers. With the kind
    ``closed``, each client sends its next request after the previous request has been answered. With ``as_1999``, each
    closed client draws the time between its lookups once, between half of ``resolve`` and ``resolve``, and its first
    answer comes from a rotation.
    """

    kind: Literal["open", "closed", "caches"] = "open"
    count: int = 0  # of closed clients, or of resolvers
    resolve: float = 5.0  # closed: s between a client's lookups; 0: before each request
    shortest: float = 5.0  # caches: each keeps answers for its own time between ``shortest`` and ``longest`` s
    longest: float = 30.0
    as_1999: bool = False  # closed: intervals as in the study of 1999
    zipf: float = 0.9  # caches: the k-th resolver gets queries in proportion to k ** -zipf


@dataclass(frozen=True, slots=True)
class Scenario:
    """All settings of a simulation run except the policy and the seed. Times are in virtual seconds since the start."""

    servers: tuple[ServerSpec, ...]
    workload: str = "mix"  # a key of ALL_WORKLOADS
    load: float = 0.85  # share of all servers' capacity; for open clients and caches
    rate: float | None = None  # requests/s instead of ``load``
    clients: SimulatedClients = field(default_factory=SimulatedClients)
    interval: float = 1.0  # s between an agent's reports
    early: int = 0  # change of load (requests) at which an agent reports early, at a tenth of its interval; 0: never
    alarms: tuple[str, ...] = ()  # the agents' alarm conditions, written as for --alarm
    check: bool = False  # whether a host whose report is overdue is checked (by ping)
    loss: float = 0.0  # probability that a report is lost on its way to a DNS server
    dns_servers: int = 1
    warm_up: float = 20.0  # s, left out of every figure
    duration: float = 120.0  # s measured after the warm-up
    outages: tuple[Outage, ...] = ()
    surges: tuple[Surge, ...] = ()
    other_work: tuple[OtherWork, ...] = ()
    slowdowns: tuple[Slowdown, ...] = ()
    arrivals: tuple[float, ...] | None = None  # recorded times of lookups, instead of Poisson arrivals
    stale_after: float = 3.0
    min_usable: float = 0.5
    max_speed_gain: float = MAX_SPEED_GAIN
    score: str = DEFAULT_SCORE
    terms: Mapping[str, Term] | None = None  # the terms of a custom score
    client_sites: tuple[tuple[str, float], ...] = ()  # site and weight of the clients near it; empty: by capacity
    near: float = 0.005  # s of network delay that a request takes within a site, if the farm has sites
    far: float = 0.060  # s of network delay that a request takes between two sites
    check_few: bool = False  # count answers in light traffic, and those that named a highest score

    @property
    def end(self) -> float:
        return self.warm_up + self.duration

    @property
    def capacity(self) -> float:
        return sum(server.capacity for server in self.servers)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites in the order of the servers. It is empty if the farm has no sites."""
        return tuple(dict.fromkeys(server.site for server in self.servers if server.site))

    @property
    def backup_members(self) -> tuple[int, ...]:
        """The indexes of the servers of the backup pool. It is empty if the pool has no backup."""
        return tuple(i for i, server in enumerate(self.servers) if server.backup)

    def delay(self, origin: int, site: int) -> float:
        """Return the network delay in seconds of a request from a client near the site ``origin`` to ``site``. The
        arguments are indexes of ``sites``."""
        if not self.sites:
            return 0.0
        return self.near if origin == site else self.far

    @property
    def client_weights(self) -> tuple[float, ...]:
        """The weight of the clients near each site."""
        by_capacity = [(server.site, server.capacity) for server in self.servers]
        found = dict.fromkeys(self.sites, 0.0)
        for site, weight in self.client_sites or by_capacity:
            if site in found:
                found[site] += weight
        return tuple(found.values())


def _farm(*machines: tuple[float, float]) -> tuple[ServerSpec, ...]:
    return tuple(ServerSpec(f"s{number}", speed, cores) for number, (speed, cores) in enumerate(machines, 1))


#: T3: three unequal servers. H10: capacities (speed times cores) from 1 to 4 on 1 to 8 cores. U10: ten equal servers.
FARMS: Final[Mapping[str, tuple[ServerSpec, ...]]] = {
    "T3": _farm((1.1, 1), (0.7, 1), (2.0, 2)),
    "H10": _farm(
        (1.0, 1), (0.5, 2), (1.5, 1), (1.0, 2), (2.0, 1), (0.625, 4), (1.5, 2), (0.875, 4), (1.0, 4), (0.5, 8)
    ),
    "U10": _farm(*[(1.0, 2)] * 10),
}

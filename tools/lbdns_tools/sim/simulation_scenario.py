"""The scenario of a simulation: farm, requests, clients, reports and failures. The named farms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from lbdns.scores.score import Term

WORKERS: Final = 256  # requests that a web server processes at once: Apache's MaxRequestWorkers
BACKLOG: Final = 511  # further connections that wait: Apache's ListenBacklog
DEADLINE: Final = 10.0  # s: a response later than this, or none, is a failure and counts as this long


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A web server: ``speed`` is that of one core; its capacity is ``speed * cores`` seconds of work a second."""

    name: str
    speed: float = 1.0
    cores: float = 1.0
    workers: int = WORKERS
    backlog: int = BACKLOG
    background: float = 0.0  # runnable tasks of other work, all the time

    @property
    def capacity(self) -> float:
        return self.speed * self.cores


@dataclass(frozen=True, slots=True)
class Outage:
    """A server that dies at ``start`` and comes back at ``end`` (s).

    With ``service_only`` the web server dies and the agent goes on reporting: connections are refused and server-status
    fails.
    """

    server: str
    start: float
    end: float = float("inf")
    service_only: bool = False


@dataclass(frozen=True, slots=True)
class Surge:
    """Between ``start`` and ``end`` (s) requests come ``factor`` times as often: a flash crowd."""

    start: float
    end: float
    factor: float


@dataclass(frozen=True, slots=True)
class OtherWork:
    """Between ``start`` and ``end`` (s) ``tasks`` more runnable tasks on a server that are none of the web server's."""

    server: str
    start: float
    end: float
    tasks: float


@dataclass(frozen=True, slots=True)
class SimulatedClients:
    """How requests arrive, and how long an answer is used.

    open: Poisson arrivals, each with its own look-up. caches: Poisson arrivals through resolvers. closed: each client
    sends its next request when it has the response to the one before.
    """

    kind: Literal["open", "closed", "caches"] = "open"
    count: int = 0  # of closed clients, or of resolvers
    resolve: float = 5.0  # closed: s between the look-ups of a client; 0: before each request
    shortest: float = 5.0  # caches: each keeps answers for its own time between ``shortest`` and ``longest`` s
    longest: float = 30.0
    zipf: float = 0.9  # caches: the k-th is asked in proportion to k ** -zipf


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run, without the policy and the seed. Times in seconds of virtual time from the start of the run."""

    servers: tuple[ServerSpec, ...]
    workload: str = "mix"  # of WORKLOADS
    load: float = 0.85  # of all servers' capacity; for open clients and caches
    rate: float | None = None  # requests/s instead of ``load``
    clients: SimulatedClients = field(default_factory=SimulatedClients)
    interval: float = 1.0  # between an agent's reports
    early: int = 0  # an agent reports early, at a tenth of its interval, when its load has changed so much; 0: never
    alarms: tuple[str, ...] = ()  # when an agent says that its host is overloaded, as its --alarm has it
    loss: float = 0.0  # share of the reports that no collector gets; each one's own luck
    dns_servers: int = 1
    warm_up: float = 20.0  # left out of every figure
    duration: float = 120.0  # measured, after the warm-up
    outages: tuple[Outage, ...] = ()
    surges: tuple[Surge, ...] = ()
    other_work: tuple[OtherWork, ...] = ()
    arrivals: tuple[float, ...] | None = None  # recorded times of look-ups, instead of Poisson arrivals
    stale_after: float = 3.0
    min_usable: float = 0.5
    score: str = "thesis"
    terms: Mapping[str, Term] | None = None  # of a score of one's own
    check_few: bool = False  # count how often the highest score was answered while answers were few

    @property
    def end(self) -> float:
        return self.warm_up + self.duration

    @property
    def capacity(self) -> float:
        return sum(server.capacity for server in self.servers)


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

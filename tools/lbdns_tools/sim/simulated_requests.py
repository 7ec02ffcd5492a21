"""Simulates requests, including workloads and clients, and counts responses and failures."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, cycle
from random import Random
from typing import Final

from lbdns_tools.load.load_plan import ResolveRule
from lbdns_tools.sim.client_sites import SiteTally
from lbdns_tools.sim.event_calendar import EventCalendar
from lbdns_tools.sim.simulated_web_server import SimulatedRequest, SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import DEADLINE, Scenario, SimulatedClients

NO_CLIENT: Final = -1  # the client of a request outside a closed loop
START_SPREAD: Final = 0.1  # s over which the clients of a closed loop send their first requests

#: A function that returns the member that a lookup selects, given the time and the number of the site near the client
LookUp = Callable[[float, int], int]


@dataclass(frozen=True, slots=True)
class RequestWorkload:
    """A workload: the distribution of the work per request, in seconds at speed 1.

    ``draw`` takes a random number generator and returns a function that draws the work of one request.
    """

    mean: float
    draw: Callable[[Random], Callable[[], float]]


def exponential(mean: float) -> RequestWorkload:
    return RequestWorkload(mean, lambda chance: lambda: -mean * math.log(1.0 - chance.random()))


def hyperexponential(likely: float, mean: float, other: float) -> RequestWorkload:
    """Return a mix of two exponential workloads. The mean is ``mean`` with probability ``likely``, and otherwise
    ``other``."""

    def draw(chance: Random) -> Callable[[], float]:
        random, log = chance.random, math.log
        return lambda: (-mean if random() < likely else -other) * log(1.0 - random())

    return RequestWorkload(likely * mean + (1 - likely) * other, draw)


def lognormal(mean: float, sigma: float) -> RequestWorkload:
    mu = math.log(mean) - sigma * sigma / 2
    return RequestWorkload(mean, lambda chance: lambda: math.exp(mu + sigma * chance.gauss(0.0, 1.0)))


def constant(seconds: float) -> RequestWorkload:
    return RequestWorkload(seconds, lambda chance: lambda: seconds)


#: The workloads of the preset studies and the acceptance tests
WORKLOADS: Final[Mapping[str, RequestWorkload]] = {
    "html": exponential(0.010),
    "cgi": exponential(0.100),
    "mix": hyperexponential(0.9, 0.010, 0.200),
    "lognormal": lognormal(0.030, 2.0),
}
#: A page that takes the same CPU time each time, as the pages of the lab do
PAGE: Final = "page"
ALL_WORKLOADS: Final[Mapping[str, RequestWorkload]] = {**WORKLOADS, PAGE: constant(0.010)}


class RequestArrivals:
    """The arrivals of open-loop requests, either Poisson or recorded. ``next`` is the time of the next arrival, or
    infinity."""

    def __init__(self, rate: float, recorded: tuple[float, ...] | None, chance: Random) -> None:
        self._rate, self._chance = rate, chance
        self._factor = 1.0
        self._recorded: Iterator[float] | None = None if recorded is None else iter(recorded)
        self.next = math.inf

    def draw(self, now: float) -> None:
        """Set ``next`` to the first arrival after ``now``."""
        if self._recorded is not None:
            self.next = next(self._recorded, math.inf)
        else:
            self.next = now - math.log(1.0 - self._chance.random()) / (self._rate * self._factor)

    def multiply_rate(self, factor: float, now: float) -> None:
        """Multiply the original arrival rate by ``factor``, starting at ``now``. Recorded arrivals do not change."""
        self._factor = factor
        if self.next < math.inf and self._recorded is None:
            self.draw(now)


def through_caches(clients: SimulatedClients, look_up: LookUp, chance: Random, sites: int = 1) -> LookUp:
    """Return a lookup function that sends each lookup to a caching resolver. Resolvers are selected at random according
    to Zipf's law. If there are several ``sites``, each has resolvers of its own."""
    weights = list(accumulate((k + 1) ** -clients.zipf for k in range(clients.count)))
    kept_for = [chance.uniform(clients.shortest, clients.longest) for _ in weights]
    until = [[-math.inf] * clients.count for _ in range(sites)]
    members = [[0] * clients.count for _ in range(sites)]

    def choose(now: float, origin: int) -> int:
        at = bisect_left(weights, chance.random() * weights[-1])
        if until[origin][at] <= now:
            until[origin][at] = now + kept_for[at]
            members[origin][at] = look_up(now, origin)
        return members[origin][at]

    return choose


def _intervals(clients: SimulatedClients, chance: Random) -> Iterator[float]:
    """Yield the time between lookups in seconds for each client of a closed loop."""
    rule = ResolveRule("1999", clients.resolve)
    for _ in range(clients.count):
        yield rule.interval(chance) if clients.as_1999 else clients.resolve


class ClosedClients:
    """The clients of a closed loop. Each client sends its next request after the previous request has been answered."""

    def __init__(
        self,
        scenario: Scenario,
        calendar: EventCalendar,
        chance: Random,
        size: Callable[[], float],
        look_up: LookUp,
        send: Callable[[float, int, float, int, int], None],
        origins: Sequence[int],
    ) -> None:
        """``origins`` contains, for each client, the number of the site near it."""
        count = scenario.clients.count
        self._end = scenario.end
        self._intervals = list(_intervals(scenario.clients, chance))
        # In 1999, a client that had just started looked up the name of the rotation, whichever policy it wanted
        self._rotation = cycle(range(len(scenario.servers))) if scenario.clients.as_1999 else None
        self._calendar, self._chance = calendar, chance
        self._size, self._look_up, self._send = size, look_up, send
        self._origins = origins
        self._resolved_until = [-math.inf] * count
        self._resolved = [0] * count
        for client in range(count):
            calendar.at(chance.random() * START_SPREAD, partial(self.send_next, client))

    def send_next(self, client: int, now: float) -> None:
        """Send a client's next request, preceded by a lookup if one is due."""
        if now >= self._end:
            return
        if now >= self._resolved_until[client]:
            self._resolve(client, now)
        self._send(now, self._resolved[client], self._size(), client, self._origins[client])

    def _resolve(self, client: int, now: float) -> None:
        is_first = self._resolved_until[client] == -math.inf
        if self._rotation is not None:
            self._resolved[client] = next(self._rotation) if is_first else self._look_up(now, self._origins[client])
            self._resolved_until[client] = now + self._intervals[client]
            return
        # A client's first lookup falls at a random point of its interval, so that clients are out of step
        part = self._chance.random() if is_first else 1.0
        self._resolved_until[client] = now + part * self._intervals[client]
        self._resolved[client] = self._look_up(now, self._origins[client])

    def respond(self, client: int, when: float) -> None:
        """Schedule a client's next request, which follows a response that arrives at the time ``when``."""
        self._calendar.at(when, partial(self.send_next, client))

    def time_out(self, client: int, when: float) -> None:
        """Schedule a client's timeout at the time ``when``. The client then repeats the lookup and sends the next
        request."""
        self._resolved_until[client] = -math.inf
        self._calendar.at(when, partial(self.send_next, client))


class RequestFlow:
    """The flow of requests to servers, with counts of the responses and failures after the warm-up."""

    def __init__(self, scenario: Scenario, servers: Sequence[SimulatedWebServer]) -> None:
        self._servers = servers
        self._begin, self._end = scenario.warm_up, scenario.end
        self.ends = [math.inf] * len(servers)  # the time of each server's next departure; infinity without requests
        self.closed: ClosedClients | None = None
        self.responses = array("d")  # seconds
        self.sent = [0] * len(servers)  # requests by server
        self.failed = 0
        self.second_count, self.second_sum = 0, 0.0  # responses since the last full second, and the sum of their times
        self.sites = [SiteTally() for _ in scenario.sites]  # by the site near the client
        numbers = [scenario.sites.index(server.site) for server in scenario.servers] if scenario.sites else []
        self._delays = [[scenario.delay(origin, site) for site in numbers] for origin in range(len(self.sites))]
        self._is_local = [[origin == site for site in numbers] for origin in range(len(self.sites))]

    def send(self, now: float, member: int, size: float, client: int, origin: int = 0) -> None:
        """Send a request with ``size`` seconds of work to a server. ``client`` is NO_CLIENT outside a closed loop.
        ``origin`` is the number of the site near the client."""
        if self._begin <= now < self._end:
            self.sent[member] += 1
            if self.sites:
                self.sites[origin].sent += 1
                self.sites[origin].kept += self._is_local[origin][member]
        server = self._servers[member]
        if server.up and server.arrive(now, size, (now, client, origin)):
            self.ends[member] = server.next_end
            return
        self._lose(now, now, client, origin)

    def respond(self, request: SimulatedRequest, now: float, member: int) -> None:
        """Count the response of a server to ``request``. In a closed loop, the client then sends its next request."""
        started, client, origin = request
        seconds = now - started
        if self.sites:
            seconds += self._delays[origin][member]
        self.second_count += 1
        self.second_sum += min(seconds, DEADLINE)
        if self._begin <= started < self._end:
            is_late = seconds > DEADLINE
            self._count(DEADLINE if is_late else seconds, is_late, origin)
        if self.closed is None:
            return
        if self.sites:
            self.closed.respond(client, started + seconds)
        else:
            self.closed.send_next(client, now)

    def fail_server(self, member: int, now: float) -> None:
        """Stop a web server, and count all of its requests as lost."""
        for started, client, origin in self._servers[member].fail(now):
            self._lose(now, started, client, origin)
        self.ends[member] = math.inf

    def _lose(self, now: float, started: float, client: int, origin: int) -> None:
        """Count a lost request that was sent at ``started``."""
        if self._begin <= started < self._end:
            self._count(DEADLINE, True, origin)
        self.second_count += 1
        self.second_sum += DEADLINE
        if self.closed is not None:
            self.closed.time_out(client, max(now, started + DEADLINE))

    def _count(self, seconds: float, failed: bool, origin: int) -> None:
        self.responses.append(seconds)
        self.failed += failed
        if self.sites:
            self.sites[origin].responses.append(seconds)
            self.sites[origin].failed += failed

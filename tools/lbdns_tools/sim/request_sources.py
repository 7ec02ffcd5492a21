"""Where simulated requests come from: Poisson or recorded arrivals, caching resolvers, clients that wait."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from random import Random
from typing import Final

from lbdns_tools.sim.event_calendar import EventCalendar
from lbdns_tools.sim.simulation_scenario import Scenario, SimulatedClients

NO_CLIENT: Final = -1  # the client of a request outside a closed loop
START_SPREAD: Final = 0.1  # s over which the clients of a closed loop send their first requests

#: now -> the member that a look-up returns
LookUp = Callable[[float], int]


class RequestArrivals:
    """Arrivals of an open loop, Poisson or recorded; ``next`` is the time of the next one, or infinity."""

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
        """Let requests arrive ``factor`` times as often from now on; recorded arrivals stay."""
        self._factor = factor
        if self.next < math.inf and self._recorded is None:
            self.draw(now)


def through_caches(clients: SimulatedClients, look_up: LookUp, chance: Random) -> LookUp:
    """Return a look-up through caching resolvers; each request goes to one of them, drawn by Zipf's law."""
    weights = list(accumulate((k + 1) ** -clients.zipf for k in range(clients.count)))
    kept_for = [chance.uniform(clients.shortest, clients.longest) for _ in weights]
    until, members = [-math.inf] * clients.count, [0] * clients.count

    def choose(now: float) -> int:
        at = bisect_left(weights, chance.random() * weights[-1])
        if until[at] <= now:
            until[at] = now + kept_for[at]
            members[at] = look_up(now)
        return members[at]

    return choose


class ClosedClients:
    """Clients that each send their next request when they have the response to the one before."""

    def __init__(
        self,
        scenario: Scenario,
        calendar: EventCalendar,
        chance: Random,
        size: Callable[[], float],
        look_up: LookUp,
        send: Callable[[float, int, float, int], None],
    ) -> None:
        count = scenario.clients.count
        self._end, self._interval = scenario.end, scenario.clients.resolve
        self._calendar, self._chance = calendar, chance
        self._size, self._look_up, self._send = size, look_up, send
        self._resolved_until = [-math.inf] * count
        self._resolved = [0] * count
        for client in range(count):
            calendar.at(chance.random() * START_SPREAD, partial(self.send_next, client))

    def send_next(self, client: int, now: float) -> None:
        """Send the next request of a client, after a look-up if one is due."""
        if now >= self._end:
            return
        if now >= self._resolved_until[client]:
            # A client's first look-up falls at a random point of its interval, so that clients are out of step
            part = self._chance.random() if self._resolved_until[client] == -math.inf else 1.0
            self._resolved_until[client] = now + part * self._interval
            self._resolved[client] = self._look_up(now)
        self._send(now, self._resolved[client], self._size(), client)

    def time_out(self, client: int, when: float) -> None:
        """Let a client give up its request at ``when``, look up again and send the next one."""
        self._resolved_until[client] = -math.inf
        self._calendar.at(when, partial(self.send_next, client))

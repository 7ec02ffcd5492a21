"""Simulates a web server with processor sharing across cores, a limited number of workers, and a listen queue."""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush
from typing import Final

from lbdns_tools.sim.simulation_scenario import ServerSpec

#: start time, client (NO_CLIENT outside a closed loop), number of the site near the client (0 without sites)
SimulatedRequest = tuple[float, int, int]
IDLE_WORKERS: Final = 20  # the most spare workers that Apache keeps


class SimulatedWebServer:
    """A simulated web server, whose requests share the cores equally, with at most one core per request.

    ``attained`` is the work that a continuously running request would have received since the server was last idle. A
    request ends when ``attained`` has increased by the request's size since the request started. For each request, a
    heap stores the value of ``attained`` at which the request ends. This value stays the same when other requests
    arrive or end.
    """

    __slots__ = (
        "_jobs", "_last", "_rates", "attained", "background", "completed", "cpu", "next_end", "other_cpu", "spec",
        "speed", "up", "waiting",
    )  # fmt: skip

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.up = True
        self.background = spec.background
        self.speed = spec.speed
        self.attained = 0.0
        self.next_end = math.inf
        self.completed = 0
        self.cpu = 0.0  # CPU seconds of the web server
        self.other_cpu = 0.0  # CPU seconds of other work
        self.waiting: deque[tuple[float, SimulatedRequest]] = deque()
        self._jobs: list[tuple[float, SimulatedRequest]] = []
        self._last = 0.0
        self._set_rates()

    @property
    def busy(self) -> int:
        """The number of requests that are being processed."""
        return len(self._jobs)

    @property
    def present(self) -> int:
        """The number of requests that are being processed or waiting."""
        return len(self._jobs) + len(self.waiting)

    @property
    def stood_still(self) -> float:
        """The seconds for which the host has stood still, because its CPU quota was used up."""
        return 0.0

    def expected(self) -> float:
        """Return the time that a new request with one second of work would take if no further requests arrived."""
        tasks = self.present + 1 + self.background
        return max(1.0, tasks / self.spec.usable_cores) / self.speed

    def set_background(self, tasks: float, now: float) -> None:
        self.advance(now)
        self.background = tasks
        self._change_rates(now)

    def set_speed(self, speed: float, now: float) -> None:
        self.advance(now)
        self.speed = speed
        self._change_rates(now)

    def _change_rates(self, now: float) -> None:
        self._set_rates()
        if self._jobs:
            self.next_end = now + (self._jobs[0][0] - self.attained) / self._rates[len(self._jobs)]

    def arrive(self, now: float, size: float, request: SimulatedRequest) -> bool:
        """Accept a request and return True, or return False if the listen queue is full."""
        jobs = self._jobs
        busy = len(jobs)
        if busy >= self.spec.workers:
            if len(self.waiting) >= self.spec.backlog:
                return False
            self.waiting.append((size, request))
            return True
        if busy or self.background:
            self.advance(now)
        else:
            self.attained = 0.0
            self._last = now
        heappush(jobs, (self.attained + size, request))
        self.next_end = now + (jobs[0][0] - self.attained) / self._rates[busy + 1]
        return True

    def depart(self, now: float) -> SimulatedRequest:
        """Remove and return the request that ends at ``now``, which must equal ``next_end``."""
        self.advance(now)
        jobs = self._jobs
        end, request = heappop(jobs)
        self.attained = end
        self.completed += 1
        if self.waiting:
            size, waited = self.waiting.popleft()
            heappush(jobs, (end + size, waited))
        self.next_end = now + (jobs[0][0] - end) / self._rates[len(jobs)] if jobs else math.inf
        return request

    def fail(self, now: float) -> list[SimulatedRequest]:
        """Stop the web server, and return the lost requests."""
        self.advance(now)
        lost = [request for _, request in self._jobs] + [request for _, request in self.waiting]
        self._jobs.clear()
        self.waiting.clear()
        self.up = False
        self.next_end = math.inf
        return lost

    def advance(self, now: float) -> None:
        """Advance the server's state to the time ``now``."""
        seconds = now - self._last
        self._last = now
        busy = len(self._jobs)
        rate = self._rates[busy]
        self.attained += seconds * rate
        self.cpu += seconds * busy * rate / self.speed
        if self.background:
            share = min(1.0, self.spec.cores / (busy + self.background))
            self.other_cpu += seconds * self.background * share

    def _set_rates(self) -> None:
        cores, speed, others = self.spec.cores, self.speed, self.background
        self._rates = [speed * min(1.0, cores / max(1.0, n + others)) for n in range(self.spec.workers + 1)]

    def recover(self, now: float) -> None:
        """Restart the stopped web server with no requests queued or in progress."""
        self.advance(now)
        self.up = True

"""A simulated web server: processor sharing over its cores, a bound on requests at work, a queue before it."""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush
from typing import Final

from lbdns_tools.sim.scenario import ServerSpec

#: started, client (-1: none that waits for it)
Request = tuple[float, int]
IDLE_WORKERS: Final = 20  # Apache keeps no more spare ones than this, however many it may start


class Server:
    """All requests at work get the same share of the cores, and none more than one core.

    ``attained`` is the work done for a request that has been there since the server was last empty; one that comes
    later ends when ``attained`` has grown by its size. So a heap of ends orders them, and no request has to be touched
    while others come and go.
    """

    __slots__ = (
        "_jobs", "_last", "_rates", "attained", "background", "completed", "cpu", "next_end", "other_cpu", "spec", "up",
        "waiting",
    )  # fmt: skip

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.up = True
        self.background = spec.background
        self.attained = 0.0
        self.next_end = math.inf
        self.completed = 0
        self.cpu = 0.0  # CPU seconds of the web server
        self.other_cpu = 0.0  # CPU seconds of other work
        self.waiting: deque[tuple[float, Request]] = deque()
        self._jobs: list[tuple[float, Request]] = []
        self._last = 0.0
        self._set_rates()

    @property
    def busy(self) -> int:
        """Requests at work."""
        return len(self._jobs)

    @property
    def present(self) -> int:
        """Requests at work or waiting."""
        return len(self._jobs) + len(self.waiting)

    def expected(self) -> float:
        """What one more request would take, per second of its work, if nothing else came."""
        tasks = self.present + 1 + self.background
        return max(1.0, tasks / self.spec.cores) / self.spec.speed

    def set_background(self, tasks: float, now: float) -> None:
        self.advance(now)
        self.background = tasks
        self._set_rates()
        self._look_ahead(now)

    def arrive(self, now: float, size: float, request: Request) -> bool:
        """Take a request in; False if it is turned away."""
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

    def depart(self, now: float) -> Request:
        """The request that ends now, at ``next_end``."""
        self.advance(now)
        jobs = self._jobs
        end, request = heappop(jobs)
        self.attained = end
        self.completed += 1
        if self.waiting:
            size, waited = self.waiting.popleft()
            heappush(jobs, (end + size, waited))
        if jobs:
            self.next_end = now + (jobs[0][0] - end) / self._rates[len(jobs)]
        else:
            self.next_end = math.inf
        return request

    def fail(self, now: float) -> list[Request]:
        """The web server dies: the requests that are lost."""
        self.advance(now)
        lost = [request for _, request in self._jobs] + [request for _, request in self.waiting]
        self._jobs.clear()
        self.waiting.clear()
        self.up = False
        self.next_end = math.inf
        return lost

    def advance(self, now: float) -> None:
        """Let the time until ``now`` pass."""
        seconds = now - self._last
        self._last = now
        busy = len(self._jobs)
        rate = self._rates[busy]
        self.attained += seconds * rate
        self.cpu += seconds * busy * rate / self.spec.speed
        if self.background:
            share = min(1.0, self.spec.cores / (busy + self.background))
            self.other_cpu += seconds * self.background * share

    def _set_rates(self) -> None:
        cores, speed, others = self.spec.cores, self.spec.speed, self.background
        self._rates = [speed * min(1.0, cores / max(1.0, n + others)) for n in range(self.spec.workers + 1)]

    def _look_ahead(self, now: float) -> None:
        if self._jobs:
            self.next_end = now + (self._jobs[0][0] - self.attained) / self._rates[len(self._jobs)]

    def recover(self, now: float) -> None:
        """The web server is back, empty."""
        self.advance(now)
        self.up = True

"""Simulates the CPU quota of a control group: a host that has used it up stands still until the kernel's next period.

The kernel refills a quota once per period of 100 ms (sched-bwc.rst). Until its quota is used up, a host runs at full
speed on all of its cores, so a quota is not the same as slow cores. Quotas that a host has not used expire.
"""

from __future__ import annotations

import math
from typing import Final

from lbdns_tools.sim.simulated_web_server import SimulatedRequest, SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import ServerSpec

PERIOD: Final = 0.1  # s; the kernel's default
_ROUNDING: Final = 1e-12  # s


class CpuQuota:
    """A quota of ``cores`` CPU seconds per second, which is refilled at ``phase`` and every PERIOD after it.

    A caller must report all CPU time with ``advance``, in the order of time.
    """

    __slots__ = ("_budget", "_left", "_refill", "stood_still")

    def __init__(self, cores: float, phase: float = 0.0) -> None:
        self._budget = cores * PERIOD
        self._left = self._budget
        self.stood_still = 0.0  # s, until the time up to which ``advance`` was called last
        self._refill = phase % PERIOD or PERIOD  # the time of the next refill

    def advance(self, begin: float, end: float, use: float) -> float:
        """Return for how many seconds between two times a host runs that uses ``use`` cores while it runs."""
        ran = 0.0
        while self._refill <= end:
            ran += self._run(self._refill - begin, use)
            begin = self._refill
            self._left = self._budget
            # A host that uses nothing needs no step for each period
            periods = 1 if use else 1 + math.floor((end - self._refill) / PERIOD)
            self._refill += periods * PERIOD
        return ran + self._run(end - begin, use)

    def _run(self, seconds: float, use: float) -> float:
        seconds = max(0.0, seconds)
        ran = min(seconds, self._left / use) if use else seconds
        self._left -= ran * use
        self.stood_still += seconds - ran
        return ran

    def finish(self, begin: float, seconds: float, use: float) -> float:
        """Return the time at which a host that uses ``use`` cores has run for ``seconds`` since ``begin``, the time up
        to which ``advance`` was called last."""
        first = min(self._refill - begin, self._left / use)
        if seconds <= first + _ROUNDING:
            return begin + seconds
        each = min(PERIOD, self._budget / use)  # s that the host runs in a whole period
        left = seconds - first
        periods = max(0, math.ceil(left / each - _ROUNDING) - 1)
        return self._refill + periods * PERIOD + left - periods * each


class QuotaWebServer(SimulatedWebServer):
    """A simulated web server whose requests and other work share a CPU quota."""

    __slots__ = ("_quota",)

    def __init__(self, spec: ServerSpec, phase: float) -> None:
        self._quota = CpuQuota(spec.quota, phase)
        super().__init__(spec)

    @property
    def stood_still(self) -> float:
        return self._quota.stood_still

    def arrive(self, now: float, size: float, request: SimulatedRequest) -> bool:
        self.advance(now)  # also while the server is idle, because the quota is refilled
        accepted = super().arrive(now, size, request)
        self._set_next_end(now)
        return accepted

    def depart(self, now: float) -> SimulatedRequest:
        request = super().depart(now)
        self._set_next_end(now)
        return request

    def advance(self, now: float) -> None:
        begin, self._last = self._last, now
        busy = len(self._jobs)
        use = self._use(busy)
        seconds = self._quota.advance(begin, now, use)
        rate = self._rates[busy]
        self.attained += seconds * rate
        self.cpu += seconds * busy * rate / self.speed
        if self.background:
            self.other_cpu += seconds * self.background * min(1.0, use / (busy + self.background))

    def _change_rates(self, now: float) -> None:
        super()._change_rates(now)
        self._set_next_end(now)

    def _use(self, busy: int) -> float:
        """Return the number of cores that requests and other work use while the server does not stand still."""
        return min(self.spec.cores, busy + self.background)

    def _set_next_end(self, now: float) -> None:
        if busy := len(self._jobs):
            seconds = (self._jobs[0][0] - self.attained) / self._rates[busy]
            self.next_end = self._quota.finish(now, max(0.0, seconds), self._use(busy))


def make_web_server(spec: ServerSpec, phase: float = 0.0) -> SimulatedWebServer:
    """Return a simulated web server. ``phase`` is the time (s) at which its quota, if it has one, is first refilled."""
    return QuotaWebServer(spec, phase) if spec.quota else SimulatedWebServer(spec)

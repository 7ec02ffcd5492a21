"""Estimates the capacity of one host from its own reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from lbdns.choosing.request_cost import MAX_SPEED, MEMORY, STATUS_CPU, work_between

ENOUGH: Final = 20.0  # requests without which there is no estimate


class HostCapacity:
    """The requests/s that one host can serve with all its cores, estimated from its requests per CPU second.

    The pool's estimate (``capacity_estimate``) also compares the members with each other.
    """

    __slots__ = ("_at", "_cpu", "_last", "_requests")

    def __init__(self) -> None:
        self._requests = self._cpu = 0.0  # fading sums of requests and CPU seconds
        self._last: Mapping[str, float] | None = None
        self._at = 0.0

    def observe(self, metrics: Mapping[str, float], interval: float, now: float) -> float:
        """Record the metrics of a report, and return the estimated capacity in requests/s, or 0 if it is unknown.

        ``interval`` is the declared interval in seconds, and ``now`` the time of receipt in monotonic seconds.
        """
        last, seconds = self._last, now - self._at
        self._last, self._at = metrics, now
        if last is not None and seconds > 0:
            fade = math.exp(-seconds / MEMORY)
            self._requests *= fade
            self._cpu *= fade
            requests, cpu = work_between(last, metrics, seconds)
            if requests is not None and cpu is not None:
                own = max(1, round(seconds / interval))  # status requests, which use next to no CPU time
                requests = max(0.0, requests - own)
                self._requests += requests
                self._cpu += cpu if requests else max(0.0, cpu - STATUS_CPU * own)
        if self._requests < ENOUGH or self._cpu <= 0:
            return 0.0
        return max(0.0, metrics.get("cpu_count", 1.0)) * min(MAX_SPEED, self._requests / self._cpu)

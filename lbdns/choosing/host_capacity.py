"""Estimates the capacity of one host from its own reports."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lbdns.choosing.request_cost import ENOUGH, MAX_SPEED, MEMORY, served_between


class HostCapacity:
    """The requests/s that one host can serve with all its cores, estimated from its requests per CPU second.

    The pool's estimate (``capacity_estimate``) also compares the members with each other.
    """

    # Sums as in ``FadingWork``, but without those for a variance: every report of every host updates them
    __slots__ = ("_at", "_cpu_seconds", "_last", "_requests")

    def __init__(self) -> None:
        self._requests = self._cpu_seconds = 0.0
        self._last: Mapping[str, float] | None = None
        self._at = 0.0

    def observe(self, metrics: Mapping[str, float], interval: float, now: float) -> float:
        """Record the metrics of a report, and return the estimated capacity in requests/s, or 0 if it is unknown.

        ``interval`` is the declared interval in seconds, and ``now`` the time of receipt in monotonic seconds.
        """
        last, seconds = self._last, now - self._at
        self._last, self._at = metrics, now
        if last is not None and seconds > 0:
            weight = math.exp(-seconds / MEMORY)
            self._requests *= weight
            self._cpu_seconds *= weight
            status_requests = max(1, round(seconds / interval))
            if served := served_between(last, metrics, seconds, status_requests):
                self._requests += served[0]
                self._cpu_seconds += served[1]
        if self._requests <= ENOUGH or self._cpu_seconds <= 0:
            return 0.0
        return max(0.0, metrics.get("cpu_count", 1.0)) * min(MAX_SPEED, self._requests / self._cpu_seconds)

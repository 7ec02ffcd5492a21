"""Estimates the capacity of one host from its own reports."""

from __future__ import annotations

from collections.abc import Mapping

from lbdns.choosing.request_cost import ENOUGH, MEMORY, FadingWork, served_between


class HostCapacity:
    """The requests/s that one host can serve with all its cores, estimated from its requests per CPU second.

    The pool's estimate (``capacity_estimate``) also compares the members with each other.
    """

    __slots__ = ("_at", "_last", "_work")

    def __init__(self) -> None:
        self._work = FadingWork(MEMORY)
        self._last: Mapping[str, float] | None = None
        self._at = 0.0

    def observe(self, metrics: Mapping[str, float], interval: float, now: float) -> float:
        """Record the metrics of a report, and return the estimated capacity in requests/s, or 0 if it is unknown.

        ``interval`` is the declared interval in seconds, and ``now`` the time of receipt in monotonic seconds.
        """
        last, seconds, work = self._last, now - self._at, self._work
        self._last, self._at = metrics, now
        if last is not None and seconds > 0:
            work.fade(seconds)
            status_requests = max(1, round(seconds / interval))
            if served := served_between(last, metrics, seconds, status_requests):
                work.add(*served)
        return max(0.0, metrics.get("cpu_count", 1.0)) * work.speed if work.requests > ENOUGH else 0.0

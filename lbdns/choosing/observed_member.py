"""What the reports of one member show over time: its load, request rate, request cost and report interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from lbdns.choosing.capacity_estimate import RequestCost, load_of, plausible
from lbdns.choosing.contention import Contention
from lbdns.choosing.moving_averages import ExponentialMean
from lbdns.model.snapshot import NO_METRICS, Reading

AVERAGE: Final = 10.0  # s: the time constant of the averages
BUSY_WORKERS_VALID: Final = 10.0  # s: a server under load is late with its status page, and as busy as before
OVERDUE_AFTER: Final = 2.0  # observed intervals without a report


class ObservedMember:
    """The observations of one member; ``observe`` takes each new reading once, in order."""

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.metrics: Mapping[str, float] = NO_METRICS  # the plausible metrics of the newest reading
        self.request_cost = RequestCost()
        self.contention = Contention()
        self.requests_per_s = ExponentialMean(AVERAGE)
        self.between_reports = ExponentialMean(AVERAGE)
        self.in_progress = ExponentialMean(AVERAGE)
        self._busy_workers, self._busy_workers_at = 0.0, -math.inf  # the last value reported, and when
        self.interval = 0.0  # s between reports: as declared, or as observed if that is longer
        self.overdue_at = math.inf  # monotonic seconds: when the next report is overdue

    def observe(self, reading: Reading) -> None:
        """Record a new reading. The caller must not pass the same reading twice."""
        before, self.reading = self.reading, reading
        seconds = reading.received - before.received if before else 0.0
        if before and seconds > 0:
            self.between_reports.add(min(seconds, 10 * reading.interval), seconds)
        if before is None or reading.metrics is not before.metrics:
            self.metrics = metrics = self._with_busy_workers(plausible(reading.metrics), reading.received)
            self.request_cost.observe(metrics, seconds, status_requests=max(1, round(seconds / reading.interval)))
            self.contention.observe(metrics, seconds)
            if "requests_per_s" in metrics:
                self.requests_per_s.add(metrics["requests_per_s"], seconds or reading.interval)
            if (load := load_of(metrics)) is not None:
                self.in_progress.add(load, seconds or reading.interval)
        self.interval = max(reading.interval, self.between_reports.value or 0.0)
        self.overdue_at = reading.received + OVERDUE_AFTER * self.interval

    def _with_busy_workers(self, metrics: Mapping[str, float], now: float) -> Mapping[str, float]:
        """Return ``metrics``; if only the busy workers are missing, with their last value for a while.

        Judged by its run queue alone, a server too busy to serve its status page would seem empty and get more clients.
        """
        if "busy_workers" in metrics:
            self._busy_workers, self._busy_workers_at = metrics["busy_workers"], now
        elif "run_queue" in metrics and now - self._busy_workers_at <= BUSY_WORKERS_VALID:
            return {**metrics, "busy_workers": self._busy_workers}
        return metrics

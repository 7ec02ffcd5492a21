"""Computes a host's free capacity in percent from its metrics: 100 for an idle host, 1 for a full one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

FULL: Final = 1  # percent: a weight of 0 would mean that the host is to receive no clients at all
MOST_RUNNABLE: Final = 4.0  # tasks per core; a longer run queue leaves nothing, as in the collector's score
SMOOTHING: Final = 5.0  # s: time constant of the moving average; HAProxy asks every 2 s by default


def free_capacity(metrics: Mapping[str, float]) -> float | None:
    """Return the free share of the scarcest resource, from 0 to 1, or None if no resource has been measured. Pure.

    The resources are CPU time, places in the run queue, and the web server's workers. The result never increases when
    any kind of load increases.
    """
    shares = []
    if "cpu_idle" in metrics:
        shares.append(metrics["cpu_idle"] / 100.0)
    if "run_queue" in metrics:
        # A quota below one core counts as one core, as in alarm conditions
        shares.append(1.0 - metrics["run_queue"] / (MOST_RUNNABLE * max(1.0, metrics.get("cpu_count", 1.0))))
    idle, busy = metrics.get("idle_workers"), metrics.get("busy_workers")
    if idle is not None and busy is not None and idle + busy > 0:
        shares.append(idle / (idle + busy))
    return min(1.0, max(0.0, min(shares))) if shares else None


class FreeCapacity:
    """A moving average of the host's free capacity, so that the weight does not jump from one report to the next."""

    def __init__(self) -> None:
        self._average: float | None = None
        self._at = 0.0

    def observe(self, metrics: Mapping[str, float], now: float) -> None:
        """Add a sample, taken at ``now`` (monotonic seconds)."""
        found = free_capacity(metrics)
        if found is None or self._average is None:
            self._average = found
        else:
            self._average += (1.0 - math.exp(-max(0.0, now - self._at) / SMOOTHING)) * (found - self._average)
        self._at = now

    @property
    def percent(self) -> int | None:
        """The average in percent, from 1 to 100, or None if it is not known."""
        return None if self._average is None else max(FULL, round(100.0 * self._average))

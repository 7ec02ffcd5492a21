"""Event loop lag: the delay of timers in the event loop, and therefore also of callbacks that answer queries."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from lbdns.counting.answer_counters import AnswerCounters

EVERY: Final = 0.1  # s between checks: ten a second take 0.03 % of a core
#: Upper ends of the buckets, microseconds. The kernel's own timers are late by less than the first or second bound.
BOUNDS: Final = (200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
BEYOND: Final = 0  # stands for the upper end of the last bucket, which has none

Process = Literal["main", "worker"]


class EventLoopLag:
    """Measures the lag of the running event loop, from creation until ``stop`` is called."""

    def __init__(self, process: Process, every: float = EVERY) -> None:
        self._process, self._every = process, every
        self._loop = asyncio.get_running_loop()
        self._checks: Counter[tuple[str, int]] = Counter()
        self._us = 0
        self._due = self._loop.time() + every
        self._timer = self._loop.call_at(self._due, self._check)

    def figures(self) -> AnswerCounters:
        return AnswerCounters(lag=dict(self._checks), lag_us={self._process: self._us})

    def stop(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        now = self._loop.time()
        # The loop runs timers that are due within its clock's resolution, so a timer may also be early
        late = max(0, round((now - self._due) * 1e6))
        at = bisect_left(BOUNDS, late)
        self._checks[self._process, BOUNDS[at] if at < len(BOUNDS) else BEYOND] += 1
        self._us += late
        self._due = now + self._every
        self._timer = self._loop.call_at(self._due, self._check)


def cumulative_lag(counts: Mapping[int, int]) -> list[tuple[str, int]]:
    """Return cumulative Prometheus buckets: pairs of an upper bound (seconds, as text) and the number of checks below
    it.

    ``counts`` maps the upper bound of each bucket (microseconds, or BEYOND) to the number of checks in the bucket.
    """
    passed, buckets = 0, []
    for bound in sorted({*BOUNDS, *counts} - {BEYOND}):
        passed += counts.get(bound, 0)
        buckets.append((repr(bound / 1e6), passed))
    return [*buckets, ("+Inf", passed + counts.get(BEYOND, 0))]

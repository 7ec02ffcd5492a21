"""How late the event loop is: what becomes due at some moment, such as reading a query, waits so long for its turn."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from typing import Final, Literal

from lbdns.server.figures import Figures

EVERY: Final = 0.1  # s between looks: at ten a second, looking takes 0.03 % of a core
#: Upper ends of the buckets in microseconds. The kernel's own lateness of a timer is below the first or second.
BOUNDS: Final = (200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
BEYOND: Final = 0  # the upper end of the last bucket, which has none

Process = Literal["main", "worker"]


class LoopLag:
    """Looks from its making to ``stop``; to be made inside the event loop that it looks at."""

    def __init__(self, process: Process, every: float = EVERY) -> None:
        self._process, self._every = process, every
        self._loop = asyncio.get_running_loop()
        self._looks: Counter[tuple[str, int]] = Counter()
        self._us = 0
        self._due = self._loop.time() + every
        self._timer = self._loop.call_at(self._due, self._look)

    def figures(self) -> Figures:
        """How late the loop was so far."""
        return Figures(lag=dict(self._looks), lag_us={self._process: self._us})

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        # The loop calls what is due within its clock's resolution, so it may also be early
        late = max(0, round((now - self._due) * 1e6))
        at = bisect_left(BOUNDS, late)
        self._looks[self._process, BOUNDS[at] if at < len(BOUNDS) else BEYOND] += 1
        self._us += late
        self._due = now + self._every
        self._timer = self._loop.call_at(self._due, self._look)

"""The calendar of a simulation: a heap of callbacks, ordered by virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

Callback = Callable[[float], None]


class EventCalendar:
    """Callbacks in chronological order; those with equal times run in the order in which they were added.

    ``events[0][0]`` is the time of the next event. The heap is never empty, because it always contains an event at
    infinity.
    """

    def __init__(self) -> None:
        self.events: list[tuple[float, int, Callback]] = [(math.inf, 0, lambda now: None)]
        self._added = 0

    def at(self, when: float, do: Callback) -> None:
        """Schedule the call ``do(when)`` for time ``when``."""
        self._added += 1
        heappush(self.events, (when, self._added, do))

    def every(self, begin: float, period: float, do: Callback) -> None:
        """Schedule calls to ``do`` at time ``begin`` and every ``period`` seconds after that."""

        def repeat(now: float) -> None:
            self.at(now + period, repeat)
            do(now)

        self.at(begin, repeat)

    def run_next(self) -> None:
        """Remove the next event and call it."""
        when, _, do = heappop(self.events)
        do(when)

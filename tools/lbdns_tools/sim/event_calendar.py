"""The event calendar of a simulation: a heap of callbacks ordered by virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

Callback = Callable[[float], None]


class EventCalendar:
    """A calendar of callbacks in chronological order.

    Callbacks for the same time run in the order in which they were added. ``events[0][0]`` is the time of the next
    event. One event is always scheduled at infinity, so the heap is never empty.
    """

    def __init__(self) -> None:
        self.events: list[tuple[float, int, Callback]] = [(math.inf, 0, lambda now: None)]
        self._added = 0

    def at(self, when: float, do: Callback) -> None:
        """Schedule the call ``do(when)`` at the virtual time ``when``."""
        self._added += 1
        heappush(self.events, (when, self._added, do))

    def every(self, begin: float, period: float, do: Callback) -> None:
        """Schedule calls to ``do`` at the virtual time ``begin`` and every ``period`` seconds thereafter."""

        def repeat(now: float) -> None:
            self.at(now + period, repeat)
            do(now)

        self.at(begin, repeat)

    def run_next(self) -> None:
        """Remove the next event from the heap and run its callback."""
        when, _, do = heappop(self.events)
        do(when)

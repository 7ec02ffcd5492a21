"""When the reports are due: at fixed times of the monotonic clock, however long each takes. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

WATCH_EVERY: Final = 0.25  # seconds between two looks at what may overload the host


@dataclass(frozen=True, slots=True)
class Cadence:
    """Tick k is due at ``first + k * interval`` (monotonic seconds). What is late is skipped, never made up."""

    first: float
    interval: float

    def next_after(self, now: float) -> float:
        """The first due time later than ``now``."""
        if now < self.first:
            return self.first
        passed = math.floor((now - self.first) / self.interval)
        due = self.first + (passed + 1) * self.interval
        return due if due > now else self.first + (passed + 2) * self.interval

    def watch_after(self, now: float, due: float) -> float:
        """When to look for overload next, before the tick at ``due``; ``due`` itself if that comes first.

        Half a step before the tick is not worth a look of its own.
        """
        watch = now + WATCH_EVERY
        return watch if watch < due - WATCH_EVERY / 2 else due

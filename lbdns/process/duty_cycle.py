"""Duty cycle: limits repeated work to a share of one core by computing a pause after each run."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DutyCycle:
    """Computes pauses in proportion to the preceding work. Sans-I/O: the caller measures the work and sleeps.

    ``ratio`` is the pause divided by the working time; a ratio of 9 limits work to a tenth of the time. Every pause
    lasts at least ``shortest`` and at most ``longest`` seconds.
    """

    ratio: float
    shortest: float = 0.0
    longest: float = math.inf

    def pause_after(self, worked: float) -> float:
        """Return how many seconds to pause after ``worked`` seconds of work."""
        return min(max(self.ratio * worked, self.shortest), self.longest)

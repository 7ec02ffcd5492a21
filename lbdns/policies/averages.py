"""Moving averages on a clock that the caller brings. Pure."""

from __future__ import annotations

import math
from typing import Final


class WindowRate:
    """Events per second over a sliding window: the count of the last ``span`` seconds divided by it.

    Kept in slices, so it never reaches further back than ``span`` and by at most one slice less far.
    """

    SLICES: Final = 20

    def __init__(self, span: float = 10.0) -> None:
        self.span = span
        self._slice = span / self.SLICES
        self._counts = [0] * self.SLICES
        self._newest = 0  # number of the newest slice since the beginning of the clock

    def add(self, now: float, count: int) -> None:
        """``count`` events happened at ``now`` (seconds, never going back)."""
        self._advance(now)
        self._counts[self._newest % self.SLICES] += count

    def rate(self, now: float) -> float:
        """Events per second."""
        return self.count(now) / self.span

    def count(self, now: float) -> int:
        """Events within the window."""
        self._advance(now)
        return sum(self._counts)

    def _advance(self, now: float) -> None:
        newest = math.floor(now / self._slice)
        if newest > self._newest:
            for number in range(self._newest + 1, min(newest, self._newest + self.SLICES) + 1):
                self._counts[number % self.SLICES] = 0
            if newest - self._newest > self.SLICES:
                self._counts = [0] * self.SLICES
            self._newest = newest


class ExponentialMean:
    """The mean of a sampled value, older samples fading with time constant ``tau`` seconds.

    Samples weigh by the time they stand for. The first one is taken as it is. ``value`` is None before it.
    """

    def __init__(self, tau: float) -> None:
        self.tau = tau
        self.value: float | None = None

    def add(self, sample: float, seconds: float) -> None:
        """``sample`` held for the last ``seconds``."""
        if self.value is None:
            self.value = sample
        elif seconds > 0:
            self.value += (sample - self.value) * -math.expm1(-seconds / self.tau)

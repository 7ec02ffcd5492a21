"""Moving averages on a clock that the caller brings. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

BEGINNING: Final = 1.0  # s: no rate is told of less
UNLIKELY: Final = 4.0  # standard deviations of a count: once in 30,000 looks it is chance
MATTERS: Final = 1.5  # times the average; below it the average is as good


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
        self._began: float | None = None  # when it was first told anything, of no events perhaps
        self._total = 0
        self._marks: deque[tuple[float, int]] = deque()  # the total at times about a slice apart, the newest last

    def add(self, now: float, count: int) -> None:
        """``count`` events have happened between the last time and ``now`` (seconds, never going back)."""
        self._advance(now)
        self._counts[self._newest % self.SLICES] += count
        self._total += count
        if self._began is None:
            self._began = now
        if not self._marks or now - self._marks[-1][0] >= self._slice / 2:
            self._marks.append((now, self._total))
            while self._marks[0][0] < now - self.span:
                self._marks.popleft()

    def count(self, now: float) -> int:
        """Events within the window."""
        self._advance(now)
        return sum(self._counts)

    def rate(self, now: float) -> float:
        """Events per second; in the first ``span`` seconds, of the time since the beginning."""
        lasted = self.span if self._began is None else min(self.span, max(BEGINNING, now - self._began))
        return self.count(now) / lasted

    def rate_now(self, now: float, seconds: float) -> float:
        """Events per second of about the last ``seconds``, if they are so many that it is no chance; else ``rate``.

        It reaches back to a time when events were told, so that however seldom that is, no part of what was told at
        once is taken for something that happened at once.
        """
        usual = self.rate(now)
        mark = next((mark for mark in reversed(self._marks) if mark[0] <= now - seconds), None)
        if mark is None or mark[0] < now - self.span:
            return usual
        since, before = mark
        newest, expected = self._total - before, usual * (now - since)
        if newest <= max(MATTERS * expected, expected + UNLIKELY * math.sqrt(expected) + UNLIKELY):
            return usual
        return newest / (now - since)

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


class FadingCounts:
    """Counts by index of which older ones fade with time constant ``tau`` seconds. Only their ratios mean anything: so
    nothing has to be touched as time goes by, it is the newest that weigh more."""

    FURTHEST: Final = 100.0  # time constants until all are scaled down: e ** 100 is far from overflowing

    def __init__(self, members: int, tau: float) -> None:
        self.tau = tau
        self.values = [0.0] * members
        self._since: float | None = None

    def take_over(self, old: FadingCounts, places: Sequence[int | None]) -> None:
        """Go on where ``old`` was; ``places`` are the indexes there, None for what it doesn't have."""
        self._since = old._since
        self.values = [0.0 if place is None else old.values[place] for place in places]

    def add(self, counts: Sequence[int], now: float) -> None:
        """So many more of each since the last time, until ``now`` (seconds, never going back)."""
        if self._since is None:
            self._since = now
        age = (now - self._since) / self.tau
        if age > self.FURTHEST:
            self.values = [value * math.exp(-min(age, 700.0)) for value in self.values]
            self._since, age = now, 0.0
        weight = math.exp(age)
        for i, count in enumerate(counts):
            if count:
                self.values[i] += count * weight

"""Moving averages: rates over a sliding window, exponential means, and counts that decay exponentially.

The module is sans-I/O: callers pass the time as an argument.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import compress
from typing import Final

MIN_SPAN: Final = 1.0  # s: no rate covers less time
UNLIKELY: Final = 4.0  # standard deviations of a count: exceeded by chance once in 30,000 evaluations
MATTERS: Final = 1.3  # times the average: for a smaller burst, the average is good enough


class WindowRate:
    """The rate of events over a sliding window of ``span`` seconds.

    Events are counted in slices, each one twentieth of the window. The actual window is up to one slice shorter than
    ``span``.
    """

    SLICES: Final = 20

    def __init__(self, span: float = 10.0) -> None:
        self.span = span
        self._slice = span / self.SLICES
        self._counts = [0] * self.SLICES
        self._newest = 0  # number of the newest slice since the clock's zero
        self._began: float | None = None  # time of the first ``add``, even of no events
        self._total = 0
        self._marks: deque[tuple[float, int]] = deque()  # (time, total) about half a slice apart, the newest last

    def add(self, now: float, count: int) -> None:
        """Add ``count`` events that occurred since the last call. ``now`` is in seconds and must not decrease."""
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
        """Return the number of events within the window."""
        self._advance(now)
        return sum(self._counts)

    def rate(self, now: float) -> float:
        """Return the mean events/s over the window.

        The window begins at the first ``add``, and grows until it is ``span`` seconds long.
        """
        lasted = self.span if self._began is None else min(self.span, max(MIN_SPAN, now - self._began))
        return self.count(now) / lasted

    def recent_rate(self, now: float, seconds: float) -> float:
        """Return the events/s over roughly the last ``seconds`` seconds if they are significantly higher than ``rate``.

        Otherwise, return ``rate``. The recent period always begins at a call to ``add``. If calls are rare, the events
        added by one call are therefore averaged over the whole time since the previous call, and never look like a
        burst.
        """
        average = self.rate(now)
        mark = next((mark for mark in reversed(self._marks) if mark[0] <= now - seconds), None)
        if mark is None or mark[0] < now - self.span:
            return average
        since, before = mark
        newest, expected = self._total - before, average * (now - since)
        if newest <= max(MATTERS * expected, expected + UNLIKELY * math.sqrt(expected) + UNLIKELY):
            return average
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
    """The mean of a sampled value; older samples lose weight with time constant ``tau`` (s).

    Each sample is weighted by the time that it covers. ``value`` is None before the first sample.
    """

    def __init__(self, tau: float) -> None:
        self.tau = tau
        self.value: float | None = None

    def add(self, sample: float, seconds: float) -> None:
        """Add ``sample``, which covers the last ``seconds`` seconds."""
        if self.value is None:
            self.value = sample
        elif seconds > 0:
            self.value += (sample - self.value) * -math.expm1(-seconds / self.tau)


class FadingCounts:
    """Counts of events, keyed by index; older counts lose weight with time constant ``tau`` (s).

    Only the counts' ratios matter. Old counts remain unchanged; instead, the weight of new counts grows with time, so
    no periodic updates are needed.
    """

    RESCALE_AFTER: Final = 100.0  # time constants; e ** 100 is far from overflowing

    def __init__(self, members: int, tau: float) -> None:
        self.tau = tau
        self.values = [0.0] * members
        self._since: float | None = None

    def take_over(self, old: FadingCounts, places: Sequence[int | None]) -> None:
        """Continue from the counts in ``old``.

        ``places`` lists each count's index in ``old``, or None for a new count.
        """
        self._since = old._since
        self.values = [0.0 if place is None else old.values[place] for place in places]

    def add(self, counts: Sequence[int], now: float) -> None:
        """Add the ``counts`` accumulated since the last call. ``now`` is in seconds and must not decrease."""
        if self._since is None:
            self._since = now
        age = (now - self._since) / self.tau
        if age > self.RESCALE_AFTER:
            self.values = [value * math.exp(-min(age, 700.0)) for value in self.values]
            self._since, age = now, 0.0
        weight = math.exp(age)
        for i, count in selected(counts):
            self.values[i] += count * weight


def selected(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Return the index and the count of each item whose count is not 0."""
    return [(i, counts[i]) for i in compress(range(len(counts)), counts)]

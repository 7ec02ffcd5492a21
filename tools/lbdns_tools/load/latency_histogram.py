"""A compact and fast latency histogram with logarithmic buckets. Histograms can be merged without loss. Sans-I/O."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, inf, log
from typing import Final

from lbdns_tools.percentiles import nearest_rank

LOWEST: Final = 1e-6  # s; less than any response time over a network. Lower values share one bucket
HIGHEST: Final = 1e3  # s; longer than any timeout. Higher values share one bucket
#: A bucket's bounds are 1 % apart and its value is their geometric mean, so the error is at most 0.5 %
PER_E: Final = 1 / log(1.00999)  # buckets in a factor of e
_INNER: Final = ceil(log(HIGHEST / LOWEST) * PER_E)
_LAST: Final = _INNER + 1  # the bucket from HIGHEST; bucket 0 is for values below LOWEST
_OFFSET: Final = 1 - log(LOWEST) * PER_E


class LatencyHistogram:
    """A histogram of times in seconds. ``sum``, ``shortest`` and ``longest`` are exact. Percentiles
    between LOWEST and HIGHEST are accurate to within 0.5 %.
    """

    __slots__ = ("_counts", "_shortest", "longest", "sum")

    def __init__(self) -> None:
        self._counts = [0] * (_LAST + 1)
        self.sum = 0.0
        self.longest = 0.0
        self._shortest = inf

    def add(self, seconds: float) -> None:
        """Add a time in seconds. Negative times count as 0, because a timer may fire slightly early."""
        if seconds < self._shortest:
            self._shortest = max(0.0, seconds)
        if seconds >= LOWEST:
            self._counts[int(log(seconds) * PER_E + _OFFSET) if seconds < HIGHEST else _LAST] += 1
            self.sum += seconds
            if seconds > self.longest:
                self.longest = seconds
        else:
            self._counts[0] += 1
            if seconds > 0:
                self.sum += seconds
                self.longest = max(self.longest, seconds)

    def merge(self, other: LatencyHistogram) -> None:
        self._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]
        self.sum += other.sum
        self.longest = max(self.longest, other.longest)
        self._shortest = min(self._shortest, other._shortest)

    @property
    def shortest(self) -> float | None:
        """The shortest time in seconds, or None if the histogram is empty."""
        return None if self._shortest == inf else self._shortest

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def mean(self) -> float | None:
        """The mean time in seconds, or None if the histogram is empty."""
        count = self.count
        return self.sum / count if count else None

    def percentile(self, percent: float) -> float | None:
        """Return a percentile of all times, in seconds, by the nearest-rank method.

        Returns None if the histogram is empty. Raises ValueError unless ``percent`` is between 0 and 100.
        """
        rank, count = nearest_rank(self.count, percent), self.count
        if not count:
            return None
        if rank == count:
            return self.longest
        seen = 0
        for place, count_here in enumerate(self._counts):
            seen += count_here
            if seen >= rank:
                return min(self.longest, _middle(place))
        raise AssertionError("the rank must not exceed the number of recorded times")

    def state(self) -> list[float]:
        """Return a list that contains the sum, the longest and the shortest time, and the index and count of each
        non-empty bucket."""
        places = [part for place, count in enumerate(self._counts) if count for part in (place, count)]
        return [self.sum, self.longest, self.shortest or 0.0, *places]

    @classmethod
    def from_state(cls, state: Sequence[float]) -> LatencyHistogram:
        """Return the histogram from which ``state`` was made."""
        found = cls()
        found.sum, found.longest, shortest, *places = state
        if places:
            found._shortest = shortest
        for place, count in zip(places[::2], places[1::2], strict=True):
            found._counts[int(place)] = int(count)
        return found


def _middle(place: int) -> float:
    """Return the time in seconds that represents a bucket."""
    if place == 0:
        return LOWEST
    if place == _LAST:
        return float("inf")  # percentile() then returns the longest time
    return exp((place - _OFFSET + 0.5) / PER_E)

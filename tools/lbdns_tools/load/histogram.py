"""Times kept as counts in logarithmic buckets: many of them in little room, quickly added, merged exactly. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, isfinite, log
from typing import Final

LOWEST: Final = 1e-6  # s; quicker than any answer over a network. Anything below shares one bucket
HIGHEST: Final = 1e3  # s; longer than anybody waits. Anything from there on shares one bucket
#: A bucket's bounds are 1 % apart and it is told as its geometric middle, so what is told is off by 0.5 % at most
PER_E: Final = 1 / log(1.00999)  # buckets in a factor of e
_INNER: Final = ceil(log(HIGHEST / LOWEST) * PER_E)
_LAST: Final = _INNER + 1  # the bucket of HIGHEST and above; 0 is that below LOWEST
_OFFSET: Final = 1 - log(LOWEST) * PER_E


class Histogram:
    """Times in seconds; ``sum`` and ``longest`` are exact, percentiles within 0.5 % (from LOWEST to HIGHEST)."""

    __slots__ = ("_counts", "longest", "sum")

    def __init__(self) -> None:
        self._counts = [0] * (_LAST + 1)
        self.sum = 0.0
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        """Below 0 counts as 0: a timer that fires a moment early isn't late."""
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

    def merge(self, other: Histogram) -> None:
        self._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]
        self.sum += other.sum
        self.longest = max(self.longest, other.longest)

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def mean(self) -> float | None:
        """None if there is nothing in it."""
        count = self.count
        return self.sum / count if count else None

    @property
    def max(self) -> float | None:
        """None if there is nothing in it."""
        return self.longest if self.count else None

    def percentile(self, percent: float) -> float | None:
        """The time that ``percent`` % of all don't exceed (nearest rank), None if there is nothing in it.

        Raises ValueError for anything but 0 to 100.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile is from 0 to 100, not {percent:g}")
        count = self.count
        if not count:
            return None
        # 1e-9: 95 % of 20 is the 19th, although 0.95 * 20 may come out a trifle above 19
        rank = max(1, ceil(percent / 100 * count - 1e-9))
        if rank == count:
            return self.longest
        seen = 0
        for place, so_many in enumerate(self._counts):
            seen += so_many
            if seen >= rank:
                return min(self.longest, _middle(place))
        raise AssertionError("a rank is at most the count")

    def state(self) -> list[float]:
        """Plain data: the sum, the longest, and then place and count of each bucket that isn't empty."""
        places = [part for place, count in enumerate(self._counts) if count for part in (place, count)]
        return [self.sum, self.longest, *places]


def read_histogram(state: Sequence[float]) -> Histogram:
    """What ``state`` gave. Raises ValueError if that is no histogram's."""
    histogram = Histogram()
    if len(state) < 2 or len(state) % 2 or not all(isfinite(part) and part >= 0 for part in state):
        raise ValueError("no histogram: the sum, the longest, then pairs of place and count are wanted")
    histogram.sum, histogram.longest = float(state[0]), float(state[1])
    for place, count in zip(state[2::2], state[3::2], strict=True):
        if not (isinstance(place, int) and isinstance(count, int) and place <= _LAST):
            raise ValueError(f"no histogram: there is no bucket {place} with a count of {count}")
        histogram._counts[place] += count
    return histogram


def _middle(place: int) -> float:
    """What a time in this bucket is told as, in seconds."""
    if place == 0:
        return LOWEST
    if place == _LAST:
        return float("inf")  # told as the longest there was: nothing nearer is known
    return exp((place - _OFFSET + 0.5) / PER_E)

"""A histogram of response times that costs little CPU time, because it is updated once per wake-up, not per query.

Sans-I/O.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

#: Upper ends of the buckets, seconds; the last bucket has none.
BOUNDS: Final = (
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,
)  # fmt: skip


#: Returns the counts and the total of another histogram
TimesSource = Callable[[], tuple[Sequence[int], float]]


class ResponseTimes:
    """A histogram of the time (s) between reading a query and sending the response.

    Each query is counted with the mean response time of all queries answered in the same wake-up. The histogram
    includes those of its sources, such as the threads that answer queries.
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0
        self._sources: list[TimesSource] = []

    def add(self, queries: int, seconds: float) -> None:
        """Record that ``queries`` queries were answered one after another in ``seconds`` seconds in total."""
        self._counts[bisect_left(BOUNDS, seconds / queries)] += queries
        self._total += seconds

    def begin_source(self, source: TimesSource) -> None:
        """Include the histogram of ``source``, whose counts never decrease."""
        self._sources.append(source)

    def end_source(self, source: TimesSource) -> None:
        """Add the final counts of ``source``, and call it no more."""
        self._sources.remove(source)
        counts, total = source()
        self._counts = list(map(sum, zip(self._counts, counts, strict=True)))
        self._total += total

    @property
    def counts(self) -> Sequence[int]:
        """The number of queries in each bucket."""
        return [sum(counts) for counts in zip(self._counts, *(source()[0] for source in self._sources), strict=True)]

    @property
    def total(self) -> float:
        """The sum of all response times in seconds."""
        return self._total + sum(source()[1] for source in self._sources)

    @property
    def queries(self) -> int:
        return sum(self.counts)


def cumulative(counts: Sequence[int]) -> list[tuple[str, int]]:
    """Return cumulative Prometheus buckets: pairs of an upper bound (text) and the number of queries below it."""
    return list(zip((*map(repr, BOUNDS), "+Inf"), accumulate(counts), strict=True))

"""A histogram of response times that costs little CPU time, because it is updated once per wake-up, not per query.

Sans-I/O.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

#: Upper ends of the buckets, seconds; the last bucket has none.
BOUNDS: Final = (
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,
)  # fmt: skip


class ResponseTimes:
    """A histogram of the time (s) between reading a query and sending the response.

    Each query is counted with the mean response time of all queries answered in the same wake-up.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, queries: int, seconds: float) -> None:
        """Record that ``queries`` queries were answered one after another in ``seconds`` seconds in total."""
        self.counts[bisect_left(BOUNDS, seconds / queries)] += queries
        self.total += seconds

    @property
    def queries(self) -> int:
        return sum(self.counts)


def cumulative(counts: Sequence[int]) -> list[tuple[str, int]]:
    """Return cumulative Prometheus buckets: pairs of an upper bound (text) and the number of queries below it."""
    return list(zip((*map(repr, BOUNDS), "+Inf"), accumulate(counts), strict=True))

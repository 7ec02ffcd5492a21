"""A trace of demand: request rates over time, each of which applies until the next one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemandTrace:
    """Demand over time. Each of the ``rates`` (requests/s) applies from the corresponding time in ``times`` (Unix
    seconds, ascending) until the next time. The last rate applies until ``end``."""

    times: tuple[float, ...]
    rates: tuple[float, ...]
    end: float

    @property
    def begin(self) -> float:
        return self.times[0]

    @property
    def requests(self) -> float:
        """The number of requests in the whole trace."""
        return sum(rate * seconds for rate, seconds in self.pieces(self.begin, self.end))

    def pieces(self, begin: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield (rate, seconds) for each part with a constant rate between ``begin`` and ``end``."""
        at = max(0, bisect_right(self.times, begin) - 1)
        while begin < end:
            following = self.times[at + 1] if at + 1 < len(self.times) else self.end
            until = min(end, following) if following > begin else end
            yield self.rates[at], until - begin
            begin, at = until, min(at + 1, len(self.times) - 1)

    def shifted(self, seconds: float) -> DemandTrace:
        """Return the same trace, starting ``seconds`` later."""
        return DemandTrace(tuple(time + seconds for time in self.times), self.rates, self.end + seconds)

"""Rates from cumulative counters that may start again at 0."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class _Count:
    value: float
    at: float  # monotonic seconds


class CounterRates:
    """Computes the rate per second at which each counter has increased since its previous reading.

    ``policies/session_counter.py`` contains the rule by which the 2014 scaler evaluated its counter. That rule is not
    suitable here: it rounds up to whole sessions and seconds, and assumes that the balancer was reloaded exactly one
    minute before the reading.
    """

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}

    def rate(self, name: str, value: float, now: float, uptime: float = inf) -> float | None:
        """Return the rate since the previous reading, or None at the first reading.

        The counter started at 0 at most ``uptime`` seconds ago; inf means that this time is unknown. If the counter has
        restarted at 0 since the previous reading, the rate covers only the time since the restart.
        """
        before = self._counts.get(name)
        self._counts[name] = _Count(value, now)
        if before is None or now <= before.at:
            return None
        elapsed = now - before.at
        if value < before.value or uptime < elapsed:
            return value / max(1.0, min(uptime, elapsed))
        return (value - before.value) / elapsed

    def keep(self, names: Collection[str]) -> None:
        """Discard the readings of all counters that are not in ``names``."""
        self._counts = {name: count for name, count in self._counts.items() if name in names}

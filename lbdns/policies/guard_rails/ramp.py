"""Ramps: a member that comes back gets its share little by little, while others carry the pool. Pure: time is an
argument.

All at once it would get most of what comes (it is empty, and its score is the best), with caches cold and processes
yet to be started; and one that comes and goes would drag everybody along each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

RAMP_UP: Final = 10.0  # s, unless configured: as long as the averages of requests and answers look back
FLOOR: Final = 0.1  # of its share from the first moment: with less, few hand-outs would never show whether it serves
AT_ONCE: Final = 5.0  # s: so far apart the first reports of a start still come, each agent at a moment of its own
MEMORY: Final = 60.0  # s in which returns are counted
OFTEN: Final = 3  # returns within MEMORY; with each further one the ramp is twice as long ...
LONGEST: Final = 8.0  # ... but not more than so many times as long as configured
NOBODY: Final[Mapping[int, float]] = MappingProxyType({})


class Ramps:
    """Who of a pool's members is ramped up, and how far."""

    def __init__(self, members: int, seconds: float) -> None:
        """A ramp takes ``seconds``; 0 for none."""
        self._seconds = seconds
        self._there: tuple[int, ...] = ()  # who was handed out at the last look
        self._at_once_until = float("-inf")
        self._seen: set[int] = set()  # who was handed out since the pool began, or began anew
        self._ends: dict[int, tuple[float, float]] = {}  # who is ramped: from when, until when
        self._returns: list[tuple[float, ...]] = [()] * members  # when it came back, of the last minute

    def take_over(self, old: Ramps, places: Sequence[int | None]) -> None:
        """Go on where ``old`` was; ``places`` are the members' indexes there, None for those it doesn't have."""
        self._at_once_until = old._at_once_until
        self._there = tuple(i for i, place in enumerate(places) if place in old._there)
        self._seen = {i for i, place in enumerate(places) if place in old._seen}
        for i, place in enumerate(places):
            if place is not None:
                self._returns[i] = old._returns[place]
                if place in old._ends:
                    self._ends[i] = old._ends[place]

    def restart(self, now: float, interval: float) -> None:
        """Everybody was handed out until ``now`` (fail open): who comes in the next moments has been there all the
        time. ``interval`` is the longest time between reports, in seconds."""
        self._there = ()
        self._seen.clear()
        self._ends.clear()
        self._at_once_until = now + max(AT_ONCE, 2 * interval)

    def observe(self, candidates: tuple[int, ...], now: float, alarmed_for: Mapping[int, float] = NOBODY) -> None:
        """Who can be handed out from ``now`` on, by index; ``alarmed_for``: who was out because of an alarm that is
        over, for how many seconds. It is warm, and is ramped up for no longer than that."""
        if candidates == self._there:
            return
        before, self._there = self._there, candidates
        for i in before:
            if i not in candidates:
                self._ends.pop(i, None)
        seen, self._seen = self._seen, self._seen.union(candidates)
        if self._seconds <= 0 or not any(i in candidates for i in before):
            return
        for i in candidates:
            if i not in before and (i in seen or now >= self._at_once_until):
                self._returns[i] = (*(at for at in self._returns[i] if now - at < MEMORY), now)
                longer = min(LONGEST, 2.0 ** max(0, len(self._returns[i]) - OFTEN))
                self._ends[i] = (now, now + longer * min(self._seconds, alarmed_for.get(i, self._seconds)))

    def shares(self, now: float) -> dict[int, float]:
        """What part of its share each member gets that is ramped, from FLOOR to 1."""
        if not self._ends:
            return {}
        self._ends = {i: (began, end) for i, (began, end) in self._ends.items() if now < end}
        return {
            i: FLOOR + (1 - FLOOR) * max(0.0, now - began) / (end - began) for i, (began, end) in self._ends.items()
        }

    @property
    def running(self) -> bool:
        """Whether anybody was ramped at the last look."""
        return bool(self._ends)

"""Slow start: gradually raises a returning member's share while the other members serve most requests. Sans-I/O.

A returning member is idle and has the best score. Without slow start, a returning member would immediately get most new
clients, before its caches are warm and all its processes have started. Without slow start, a member that repeatedly
fails and returns would disturb the whole pool each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

FLOOR: Final = 0.1  # share from the first moment: with less, the few selections would not show whether it works
FIRST_REPORTS: Final = 5.0  # s within which agents send their first reports after a start, each at its own phase
MEMORY: Final = 60.0  # s for which a return is counted
OFTEN: Final = 3  # returns within MEMORY; each further one doubles the length of slow start ...
LONGEST: Final = 8.0  # ... up to this multiple of the configured length


class SlowStart:
    """A pool's members in slow start, keyed by member index.

    ``seconds`` is the length of slow start (0: no slow start).
    """

    def __init__(self, members: int, seconds: float) -> None:
        self._seconds = seconds
        self._candidates: tuple[int, ...] = ()  # as of the last call of ``observe``
        self._restarted = float("-inf")  # when all members were last selected
        self._intervals = [0.0] * members  # each member's report interval in seconds
        self._seen: set[int] = set()  # candidates at any time since the pool started or restarted
        self._spans: dict[int, tuple[float, float]] = {}  # member -> beginning and end of its slow start
        self._returns: list[tuple[float, ...]] = [()] * members  # when each member came back, within MEMORY

    def take_over(self, old: SlowStart, places: Sequence[int | None]) -> None:
        """Continue from the state in ``old``.

        ``places`` lists each member's index in ``old``, or None for a new member.
        """
        self._restarted = old._restarted
        self._intervals = [0.0 if place is None else old._intervals[place] for place in places]
        self._candidates = tuple(i for i, place in enumerate(places) if place in old._candidates)
        self._seen = {i for i, place in enumerate(places) if place in old._seen}
        for i, place in enumerate(places):
            if place is not None:
                self._returns[i] = old._returns[place]
                if place in old._spans:
                    self._spans[i] = old._spans[place]

    def reported(self, member: int, interval: float) -> None:
        """Record the interval that a member declares, in seconds. It affects only this member's slow start."""
        self._intervals[member] = interval

    def restart(self, now: float) -> None:
        """Reset the state after a fail-open that ended at ``now``.

        During the fail-open, every member received clients. Members that become candidates with their next reports
        therefore need no slow start.
        """
        self._candidates = ()
        self._seen.clear()
        self._spans.clear()
        self._restarted = now

    def observe(self, candidates: tuple[int, ...], now: float, alarmed_for: Mapping[int, float]) -> None:
        """Begin slow start for each member that has become a candidate by ``now``.

        For each member that was excluded because of an alarm, ``alarmed_for`` contains the alarm's duration in seconds.
        After an alarm, a member is still warm, so its slow start lasts no longer than the alarm.
        """
        if candidates == self._candidates:
            return
        before, after = frozenset(self._candidates), frozenset(candidates)
        self._candidates = candidates
        for i in before - after:
            self._spans.pop(i, None)
        seen, self._seen = self._seen, self._seen | after
        if self._seconds <= 0 or before.isdisjoint(after):
            return
        for i in sorted(after - before):
            if i in seen or now >= self._first_report_until(i):
                self._returns[i] = (*(at for at in self._returns[i] if now - at < MEMORY), now)
                factor = min(LONGEST, 2.0 ** max(0, len(self._returns[i]) - OFTEN))
                self._spans[i] = (now, now + factor * min(self._seconds, alarmed_for.get(i, self._seconds)))

    def _first_report_until(self, member: int) -> float:
        return self._restarted + max(FIRST_REPORTS, 2 * self._intervals[member])

    def ramps(self, now: float) -> dict[int, float]:
        """Return, for each member in slow start, the fraction of its weight (FLOOR to 1) that it gets now."""
        if not self._spans:
            return {}
        self._spans = {i: (began, end) for i, (began, end) in self._spans.items() if now < end}
        return {
            i: FLOOR + (1 - FLOOR) * max(0.0, now - began) / (end - began) for i, (began, end) in self._spans.items()
        }

    @property
    def running(self) -> bool:
        """Return whether any member was in slow start at the last call of ``ramps`` or ``observe``."""
        return bool(self._spans)

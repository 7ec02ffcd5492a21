"""The newest observations of a pool's members by column: a list for each value, with an item for each member."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from lbdns.choosing.capacity_estimate import ObservedCost, ServedWork
from lbdns.model.snapshot import NO_METRICS, Reading
from lbdns.native_extension import AVAILABLE, provides

if AVAILABLE:
    import lbdns_native

NATIVE: Final = provides("has_none")


class MemberObservations(Protocol):
    """The observations of one member over time, in Python (``ObservedMember``) or in the native extension."""

    @property
    def reading(self) -> Reading | None:
        """The newest reading."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """The plausible metrics of the newest reading."""

    @property
    def interval(self) -> float:
        """The seconds between reports: as declared, or as observed if that is longer."""

    @property
    def overdue_at(self) -> float:
        """When the next report is overdue, in monotonic seconds."""

    @property
    def request_cost(self) -> ObservedCost:
        """The requests served, and their cost."""

    def observe(self, reading: Reading) -> None:
        """Record a new reading. The caller must not pass the same reading twice."""

    def averages(self) -> tuple[float | None, float | None, float | None, float | None]:
        """Return the load, the number of cores, the requests/s and the requests in progress; None if unknown."""

    def available_share(self, cores: float) -> float:
        """Return the share of its capacity that other programs on its host leave to it (see ``Contention``)."""

    def other_tasks(self, cores: float) -> float:
        """Return the number of other programs' runnable tasks on its host (see ``Contention``)."""

    def standstill(self, cores: float) -> float:
        """Return for how many seconds a request waits because its host stands still (see ``Contention``)."""


class ObservedColumns:
    """The values that a pool's plans need of all members, in the pool's order.

    Reading a column is many times as fast as reading one attribute of each of ten thousand members. ``update`` must be
    called after each observation of a member. An item is None if the member does not report the value.
    """

    __slots__ = (
        "cores", "in_progress", "intervals", "loads", "metrics", "overdue_at", "readings", "received", "requests_per_s",
        "scores", "work",
    )  # fmt: skip

    def __init__(self, members: Iterable[MemberObservations]) -> None:
        kept = tuple(members)
        size = len(kept)
        self.readings: list[Reading | None] = [None] * size
        self.metrics: list[Mapping[str, float]] = [NO_METRICS] * size  # the plausible ones of the newest reading
        self.received = [-math.inf] * size  # monotonic seconds: when the newest reading arrived
        self.intervals = [0.0] * size  # s between reports: as declared, or as observed if that is longer
        self.overdue_at = [math.inf] * size  # monotonic seconds
        self.scores: list[int | None] = [0] * size
        self.loads: list[float | None] = [None] * size  # requests or runnable tasks
        self.cores: list[float | None] = [None] * size
        self.requests_per_s: list[float | None] = [None] * size
        self.in_progress: list[float | None] = [None] * size
        self.work = ServedWork.of([member.request_cost for member in kept])
        for i, member in enumerate(kept):
            self._copy_metrics(i, member)
            self.update(i, member)

    @property
    def by_report(self) -> tuple[list[Any], ...]:
        """Return the columns of which each reading changes an item, in the order that the native extension expects."""
        fixed = self.readings, self.metrics, self.received, self.scores, self.intervals, self.overdue_at
        return (*fixed, self.loads, self.cores, self.requests_per_s, self.in_progress)

    def update(self, i: int, member: MemberObservations) -> None:
        """Copy the values of ``member`` to the items with index ``i``."""
        reading = member.reading
        if reading is None:
            return
        self.readings[i] = reading
        self.received[i] = reading.received
        self.scores[i] = reading.score
        self.intervals[i] = member.interval
        self.overdue_at[i] = member.overdue_at
        if member.metrics is not self.metrics[i]:
            self._copy_metrics(i, member)
            self.work.update(i, member.request_cost)

    def _copy_metrics(self, i: int, member: MemberObservations) -> None:
        self.metrics[i] = member.metrics
        self.loads[i], self.cores[i], self.requests_per_s[i], self.in_progress[i] = member.averages()


def has_none(column: Sequence[object]) -> bool:
    """Return whether an item of ``column`` is None."""
    # ``None in column`` compares each number with None, which takes thirty times as long as comparing addresses
    return lbdns_native.has_none(column) if NATIVE and isinstance(column, list) else None in column


def present(column: Sequence[float | None]) -> Sequence[float]:
    """Return the items of ``column`` that are not None."""
    if not has_none(column):
        return column  # type: ignore[return-value]  # the usual case, in which a filter would take ten times as long
    return [value for value in column if value is not None]

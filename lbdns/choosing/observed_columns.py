"""The newest observations of a pool's members by column: a list for each value, with an item for each member."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lbdns.choosing.capacity_estimate import ServedWork
from lbdns.model.snapshot import NO_METRICS, Reading

if TYPE_CHECKING:
    from lbdns.choosing.observed_pool import ObservedMember


class ObservedColumns:
    """The values that a pool's plans need of all members, in the pool's order.

    Reading a column is many times as fast as reading one attribute of each of ten thousand members. ``update`` must be
    called after each observation of a member. An item is None if the member does not report the value.
    """

    __slots__ = (
        "cores", "in_progress", "intervals", "loads", "metrics", "overdue_at", "readings", "received", "requests_per_s",
        "scores", "work",
    )  # fmt: skip

    def __init__(self, members: Iterable[ObservedMember]) -> None:
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

    def update(self, i: int, member: ObservedMember) -> None:
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

    def _copy_metrics(self, i: int, member: ObservedMember) -> None:
        self.metrics[i] = member.metrics
        self.loads[i] = member.load
        self.cores[i] = member.metrics.get("cpu_count")
        self.requests_per_s[i] = member.requests_per_s.value
        self.in_progress[i] = member.in_progress.value

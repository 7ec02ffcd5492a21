"""Snapshots for tests: readings of the members of zone hobbit."""

from __future__ import annotations

from collections.abc import Mapping

from lbdns.model.snapshot import NO_METRICS, Reading, Snapshot
from tests.answering.farms import MEMBERS


class Readings:
    """Creates snapshots with increasing version numbers."""

    def __init__(self) -> None:
        self._version = 0
        self._known: dict[str, Reading] = {}

    def report(
        self,
        now: float,
        interval: float = 60.0,
        score: int = 50,
        members: tuple[str, ...] = MEMBERS,
        metrics: Mapping[str, float] = NO_METRICS,
    ) -> Snapshot:
        """Return a snapshot in which these members have reported at ``now`` (monotonic seconds)."""
        for member in members:
            self._known[f"{member}.hobbit"] = Reading(now, interval, score, metrics)
        self._version += 1
        return Snapshot(self._version, dict(self._known))

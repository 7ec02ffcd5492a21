"""A simulated lbdns server: the server's own chooser and plan cursor, with simulated reports and virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from lbdns.answering.member_selection import PlanCursor
from lbdns.choosing.chooser import Chooser
from lbdns.model.overrides import NO_POOL_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot


class SimulatedDnsServer:
    """One of ``servers`` DNS servers: it receives reports and plans by ``policy``; ``cursor`` selects the members."""

    def __init__(
        self, members: tuple[str, ...], policy: str, stale_after: float, min_usable: float, chance: Random, servers: int
    ) -> None:
        self._policy = policy
        self._members = members
        self._readings: Mapping[str, Reading] = {}
        self._version = 0
        self._chooser = Chooser(members, stale_after, min_usable, chance, servers)
        self.cursor = PlanCursor(len(members))
        self._plan(0.0)

    @property
    def next_change(self) -> float:
        """When to call ``update`` even if no report arrives."""
        return self._chooser.next_change

    def receive(self, member: str, reading: Reading, now: float) -> None:
        """Take in a report, and plan again if it changes anything."""
        self._readings = {**self._readings, member: reading}
        self._version += 1
        self.update(now)

    def update(self, now: float) -> None:
        """Plan again if anything has changed."""
        if self._chooser.observe(Snapshot(self._version, self._readings), NO_POOL_OVERRIDES, now):
            self._plan(now)

    def is_highest(self, member: int) -> bool:
        """Whether no other candidate has a higher score than this member."""
        readings = [self._readings.get(name) for name in self._members]
        scores = {i: r.score if (r := readings[i]) else 0 for i in self._chooser.liveness.candidates}
        return member in scores and scores[member] == max(scores.values())

    def _plan(self, now: float) -> None:
        plan = self._chooser.plan(self._policy, self.cursor.handed(), now)
        self.cursor.set_plan(plan, self._chooser.liveness.candidates)

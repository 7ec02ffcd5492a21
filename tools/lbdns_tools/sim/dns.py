"""A simulated lbdns server: the product's chooser and hand-outs, given simulated reports and virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from lbdns.answering.handout import Handout
from lbdns.overrides import NO_STEERING
from lbdns.policies.chooser import Chooser
from lbdns.snapshot import Reading, Snapshot


class DnsServer:
    """What one of ``servers`` DNS servers makes of the reports it gets, and whom it hands out by ``policy``."""

    def __init__(
        self, members: tuple[str, ...], policy: str, stale_after: float, min_usable: float, chance: Random, servers: int
    ) -> None:
        self._policy = policy
        self._members = members
        self._readings: Mapping[str, Reading] = {}
        self._version = 0
        self.chooser = Chooser(members, stale_after, min_usable, chance, servers)
        self.handout = Handout(len(members))
        self._plan(0.0)

    @property
    def next_change(self) -> float:
        """When to look again although no report came."""
        return self.chooser.next_change

    def hear(self, member: str, reading: Reading, now: float) -> None:
        """A report has come in."""
        self._readings = {**self._readings, member: reading}
        self._version += 1
        self.look(now)

    def look(self, now: float) -> None:
        """Plan anew if anything is different."""
        if self.chooser.observe(Snapshot(self._version, self._readings), NO_STEERING, now):
            self._plan(now)

    def reading(self, member: int) -> Reading | None:
        """The newest reading of the member with this index."""
        return self._readings.get(self._members[member])

    def is_highest(self, member: int) -> bool:
        """Whether no member that may be handed out has a higher score."""
        scores = {i: r.score if (r := self.reading(i)) else 0 for i in self.chooser.liveness.candidates}
        return member in scores and scores[member] == max(scores.values())

    def _plan(self, now: float) -> None:
        plan = self.chooser.plan(self._policy, self.handout.handed(), now)
        self.handout.set_plan(plan, self.chooser.liveness.candidates)

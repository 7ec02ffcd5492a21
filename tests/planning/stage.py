"""A pool in virtual time, with plan cursors and with one owner name per policy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from lbdns.answering.answer_table import AnswerTable
from lbdns.choosing.chooser import Chooser
from lbdns.model.overrides import NO_OVERRIDES, Override, Overrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.planning.explanation import explain, upcoming
from lbdns.policies import POLICIES
from tests.answering.farms import HOBBIT, MEMBERS, make_farm, pool

#: Owner name -> policy; an owner name of its own for each
NAMES: Final = {policy.replace("_", "-"): policy for policy in POLICIES}
OWNERS: Final = tuple(NAMES)


class Stage:
    """A pool in virtual time, with its cursors. Methods take the short names of members."""

    def __init__(
        self, members: Sequence[str] = MEMBERS, servers: int = 1, min_usable: float = 0.5, answers: int = 1
    ) -> None:
        more = "".join(f"{name} A 127.1.{n // 250}.{n % 250 + 1}\n" for n, name in enumerate(members) if name[0] == "m")
        config = pool(members=members, names=NAMES, answer="address" if answers > 1 else "cname", answers=answers)
        self.farm = make_farm({"hobbit": HOBBIT + more}, [config])
        (self.pool,) = self.farm.pools
        self.table = AnswerTable(self.farm)
        full = [member.full_name for member in self.pool.members]
        self.chooser = Chooser(full, 3.0, min_usable, Random(1), servers, ranks=answers > 1)
        self.overrides = NO_OVERRIDES
        self.now = 1000.0
        self._readings: dict[str, Reading] = {}
        self.plan()

    def report(self, *members: str, score: int = 50, metrics: Mapping[str, float] | None = None, **more: Any) -> None:
        """Record a report from each of these members, or from all members if none is named."""
        told = {"busy_workers": 1.0, "requests_per_s": 10.0} if metrics is None else metrics
        for name in members or [member.name for member in self.pool.members]:
            self._readings[f"{name}.hobbit"] = Reading(self.now, more.pop("interval", 1.0), score, told, **more)

    def order(self, *overrides: Override) -> None:
        self.overrides = Overrides(overrides)

    def plan(self) -> None:
        """Update the plans if anything has changed."""
        pool_overrides = self.overrides.for_pool("web")
        if not self.chooser.observe(Snapshot(1, dict(self._readings)), pool_overrides, self.now):
            return
        for (_, policy), handout in self.table.cursors.items():
            handout.set_plan(
                self.chooser.plan(policy, handout.selections(), self.now), self.chooser.liveness.candidates
            )

    def explain(self, owner: str = "best") -> dict[str, Any]:
        """Return the explanation, after checking that JSON can represent it."""
        handout = self.table.cursors["web", NAMES[owner]]
        told = explain(self.pool, owner, self.chooser, handout, self.overrides, parts, self.now)
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        return told

    def upcoming(self, owner: str = "best") -> dict[str, Any]:
        """Return the next answers as the status document shows them."""
        policy = NAMES[owner]
        return upcoming(self.pool, policy, self.chooser, self.table.cursors["web", policy], self.now)

    def members(self, owner: str = "best") -> dict[str, dict[str, Any]]:
        return {member["name"]: member for member in self.explain(owner)["members"]}

    def ask(self, owner: str = "best", times: int = 1) -> list[str]:
        """Return the members named in the next ``times`` answers."""
        handout = self.table.cursors["web", NAMES[owner]]
        return [self.pool.members[handout.next()].name for _ in range(times)]


def ready(**options: float) -> Stage:
    """Return a ``Stage`` in which all members have reported and frodo has the highest score."""
    stage = Stage(**options)  # type: ignore[arg-type]
    stage.report()
    stage.report("frodo", score=60)
    stage.plan()
    return stage


def parts(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the parts of a score that depends only on busy_workers; the default report scores 50."""
    return {"busy_workers": 51.0 - metrics["busy_workers"]} if "busy_workers" in metrics else {}

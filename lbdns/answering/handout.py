"""Handing out a plan: the one counter that a query moves, and what can be told from it afterwards. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lbdns.policies.plan import Handed, Plan


class Handout:
    """The plan of one pool and policy and how far it has been given out.

    The query path does what ``next`` does, without the call. Who got how many is
    worked out when somebody asks: it follows from the order and the place in it.
    """

    __slots__ = ("_before", "_last", "_passes", "at", "order", "plan")

    def __init__(self, members: int) -> None:
        self._before = [0] * members  # hand-outs of earlier plans, by member
        self._last: int | None = None  # last hand-out of earlier plans
        self._begin(Plan(tuple(range(members))))

    def _begin(self, plan: Plan) -> None:
        self.plan = plan
        self.order: Sequence[int] = plan.order
        self.at = 0
        self._passes = 0  # how often the order came to its end

    def set_plan(self, plan: Plan) -> None:
        """From now on hand out ``plan``, from its beginning."""
        self._before, self._last = self.totals(), self.last
        self._begin(plan)

    def wrap(self) -> int:
        """The order is used up: go on where it repeats. The member there; ``at`` is left at its place."""
        self._passes += 1
        self.at = self.plan.repeat_from
        return self.order[self.at]

    def next(self) -> int:
        """Hand out: the member that is due."""
        try:
            member = self.order[self.at]
        except IndexError:
            member = self.wrap()
        self.at += 1
        return member

    @property
    def due(self) -> int:
        """The member that the next hand-out gives."""
        return self.order[self.at if self.at < len(self.order) else self.plan.repeat_from]

    @property
    def last(self) -> int | None:
        """The member handed out last, of any plan."""
        return self.order[self.at - 1] if self.at else self._last

    def counts(self) -> Counter[int]:
        """Hand-outs of the present plan by member."""
        if not self._passes:
            return Counter(self.order[: self.at])
        repeated = self.plan.repeat_from
        counts = Counter(self.order) + Counter(self.order[repeated : self.at])
        for member, count in Counter(self.order[repeated:]).items():
            counts[member] += count * (self._passes - 1)
        return counts

    def totals(self) -> list[int]:
        """Hand-outs since the start by member."""
        counts = self.counts()
        return [before + counts[i] for i, before in enumerate(self._before)]

    def handed(self) -> Handed:
        """What was given out of the present plan until now."""
        counts = self.counts()
        return Handed(self.plan, tuple(counts[i] for i in range(len(self._before))), self.last)

    def take_over(self, old: Handout, mapping: Sequence[int | None]) -> None:
        """Go on where ``old`` was: its totals and its last hand-out. ``mapping`` gives the index here for each of
        its members, None if it is gone. To be called before anything is handed out."""
        for now, total in zip(mapping, old.totals(), strict=True):
            if now is not None:
                self._before[now] += total
        self._last = mapping[old.last] if old.last is not None else None

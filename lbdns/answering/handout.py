"""Handing out a plan: the one counter that a query moves, and what can be told from it afterwards. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from lbdns.policies.plan import Handed, Plan

if TYPE_CHECKING:
    from lbdns.answering.plane import CompiledTable


class Handout:
    """The plan of one pool and policy and how far it has been given out.

    A query takes what is ``next``, which moves one counter. Who got how many is worked out when somebody asks: it
    follows from the order and the place in it.
    """

    __slots__ = ("_at", "_before", "_last", "_passes", "coherence", "number", "order", "plan", "usable")

    def __init__(self, members: int, number: int = 0, coherence: float = 0.0) -> None:
        """``number`` tells it from others of its table; ``coherence`` is how long types that belong together get the
        same member, in seconds."""
        self.number = number
        self.coherence = coherence
        self._before = [0] * members  # hand-outs of earlier plans, by member
        self._last: int | None = None  # last hand-out of earlier plans
        plan = Plan(tuple(range(members)))
        self._begin(plan, frozenset(plan.order))

    def _begin(self, plan: Plan, usable: frozenset[int]) -> None:
        self.plan = plan
        self.order: Sequence[int] = plan.order
        self.usable = usable  # may still be given to who was given them before
        self._at = 0
        self._passes = 0  # how often the order came to its end

    def set_plan(self, plan: Plan, usable: Collection[int] | None = None) -> None:
        """From now on hand out ``plan``, from its beginning.

        A plan may leave out members that could be handed out as well. ``usable`` are all that can be, for who asks
        again; those of the plan if nothing more is known.
        """
        self._before, self._last = self.totals(), self.last
        self._begin(plan, frozenset(plan.order if usable is None else usable))

    def next(self) -> int:
        """Hand out: the member that is due."""
        at = self._at
        if at == len(self.order):
            self._passes += 1
            at = self.plan.repeat_from
        self._at = at + 1
        return self.order[at]

    def _handed(self) -> tuple[int, int]:
        """The place in the order, and how often it came to its end."""
        return self._at, self._passes

    @property
    def given(self) -> int:
        """Hand-outs of the present plan."""
        at, passes = self._handed()
        return at + passes * (len(self.order) - self.plan.repeat_from)

    @property
    def due(self) -> int:
        """The member that the next hand-out gives."""
        at, _ = self._handed()
        return self.order[at if at < len(self.order) else self.plan.repeat_from]

    @property
    def last(self) -> int | None:
        """The member handed out last, of any plan."""
        at, _ = self._handed()
        return self.order[at - 1] if at else self._last

    def counts(self) -> Counter[int]:
        """Hand-outs of the present plan by member."""
        at, passes = self._handed()
        if not passes:
            return Counter(self.order[:at])
        repeated = self.plan.repeat_from
        counts = Counter(self.order) + Counter(self.order[repeated:at])
        for member, count in Counter(self.order[repeated:]).items():
            counts[member] += count * (passes - 1)
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


class CompiledHandout(Handout):
    """A hand-out whose counter is kept where the native part moves it."""

    __slots__ = ("compiled", "cursor")

    def __init__(self, members: int, compiled: CompiledTable, coherence: float = 0.0) -> None:
        self.compiled = compiled
        self.cursor = compiled.add_cursor(coherence)
        super().__init__(members, self.cursor, coherence)

    def _begin(self, plan: Plan, usable: frozenset[int]) -> None:
        super()._begin(plan, usable)
        self.compiled.set_plan(self.cursor, plan.order, plan.repeat_from, tuple(usable))

    def next(self) -> int:
        return self.compiled.next(self.cursor)

    def _handed(self) -> tuple[int, int]:
        return self.compiled.handed(self.cursor)

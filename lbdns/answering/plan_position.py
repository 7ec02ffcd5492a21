"""The position in a plan: how far the answers have followed it, and how many times each member has been selected.

An answer only advances a counter. Per-member counts are computed on request, from the plan's order and the current
position. The counter of a native cursor may advance at any time, also while Python makes the next plan. Sans-I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Mapping, Sequence

from lbdns.policies.plan import Plan, Selections


class PlanPosition:
    """The plan for one pool and policy, and the current position in that plan."""

    __slots__ = ("_at", "_before", "_last", "_late", "_passes", "on_plan", "order", "plan", "usable")

    def __init__(self, members: int) -> None:
        """Begin with a plan that selects members 0 to ``members - 1`` in turn."""
        self._before = [0] * members  # number of selections made by earlier plans, by member
        self._late = [0] * members  # those of them that ``selections`` has yet to return
        self._last: int | None = None  # the last selection made by an earlier plan
        self._at, self._passes = 0, 0  # the position, and the number of times that the end of the order was reached
        self.on_plan: Callable[[Plan], None] | None = None  # called with each new plan, by a follower of the plans
        plan = Plan(tuple(range(members)))
        self._begin(plan, frozenset(plan.order))

    def _begin(self, plan: Plan, usable: frozenset[int]) -> tuple[int, int]:
        """Begin ``plan``, and return the position at which the plan before it has ended."""
        ended = self._at, self._passes
        self.plan = plan
        self.order: Sequence[int] = plan.order
        self.usable: Container[int] = usable
        self._at, self._passes = 0, 0
        return ended

    def set_plan(self, plan: Plan, usable: Collection[int] | None = None, counted: Selections | None = None) -> None:
        """Follow ``plan`` from its beginning.

        ``usable`` lists all usable members (default: the plan's members). A plan may omit usable members, but a client
        that was sent to such a member earlier may be sent to it again.

        ``counted`` is the result of ``selections`` from which ``plan`` was made. Selections that the old plan has made
        since then are included in the next result of ``selections``.
        """
        before = self.plan
        at, passes = self._begin(plan, frozenset(plan.order if usable is None else usable))
        counts = before.counts(at, passes)
        if counted:
            late = _with_counts(self._late, counts)
            self._late = [n - included for n, included in zip(late, counted.counts, strict=True)]
        else:
            self._late = [0] * len(self._late)
        self._before = _with_counts(self._before, counts)
        self._last = before.order[at - 1] if at else self._last
        if self.on_plan:
            self.on_plan(plan)

    def add_selections(self, counts: Mapping[int, int]) -> None:
        """Add selections, by member, that a follower of this or an earlier plan has made.

        The next result of ``selections`` includes them. They do not move the current position.
        """
        self._before = _with_counts(self._before, counts)
        self._late = _with_counts(self._late, counts)

    def _position(self) -> tuple[int, int]:
        """Return two values: the current position in the plan's order, and how many times its end has been reached."""
        raise NotImplementedError

    @property
    def taken(self) -> int:
        """The number of positions used so far in the current plan."""
        return self.plan.taken(*self._position())

    @property
    def last(self) -> int | None:
        """The member selected last by this or an earlier plan, or None before the first selection."""
        at, _ = self._position()
        return self.order[at - 1] if at else self._last

    def counts(self) -> Counter[int]:
        """Return how many times the current plan has selected each member."""
        return self.plan.counts(*self._position())

    def totals(self) -> list[int]:
        """Return how many times each member has been selected since the start."""
        return _with_counts(self._before, self.counts())

    def selections(self) -> Selections:
        """Return the current plan's selections in the form that policies expect.

        They include those of the plan before it that no earlier result has included (see ``set_plan``).
        """
        at, passes = self._position()
        counts = self.plan.counts(at, passes)
        last = self.order[at - 1] if at else self._last
        return Selections(self.plan, tuple(_with_counts(self._late, counts)), last)

    def take_over(self, old: PlanPosition, mapping: Sequence[int | None]) -> None:
        """Carry over the totals and the rotation from ``old``. Call this method before the first selection.

        ``mapping`` contains the new index of each member of ``old``, or None for a member that was removed.
        """
        for now, total in zip(mapping, old.totals(), strict=True):
            if now is not None:
                self._before[now] += total
        self._last = mapping[old.last] if old.last is not None else None


def _with_counts(totals: Sequence[int], counts: Mapping[int, int]) -> list[int]:
    """Return ``totals``, to which the ``counts`` of some members are added."""
    found = list(totals)
    for member, count in counts.items():
        found[member] += count
    return found

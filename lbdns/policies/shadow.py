"""A shadow: the plans of a policy that nobody is answered by, given out in thought as fast as the live ones. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lbdns.policies.plan import Handed, Plan


class Shadow:
    """Who would have been handed out, and how many hand-outs that would have diverted from whom they went to.

    Compared is what both gave out from one plan to the next, by member: two orders of the same members are no
    difference.
    """

    def __init__(self, members: int) -> None:
        self.totals = [0] * members  # of earlier plans, by member
        self.diverted = 0  # by earlier plans
        self._plan = Plan(tuple(range(members)))
        self._last: int | None = None

    def give_out(self, live: Sequence[int]) -> Handed:
        """The live plan is over; ``live`` is how often it handed out each member. What this one gave out as its own."""
        handed = self._handed(sum(live))
        self.totals = [total + count for total, count in zip(self.totals, handed.counts, strict=True)]
        # Both sums are alike, so what one gave too much the other gave too little: the sum of the gaps is even
        self.diverted += sum(abs(one - other) for one, other in zip(live, handed.counts, strict=True)) // 2
        self._last = handed.last
        return handed

    def set_plan(self, plan: Plan) -> None:
        """What is given out from now on; to be called after ``give_out``."""
        self._plan = plan

    def totals_after(self, count: int) -> list[int]:
        """``totals`` as they are when the live plan has handed out ``count`` times."""
        return [total + more for total, more in zip(self.totals, self._handed(count).counts, strict=True)]

    def take_over(self, old: Shadow, mapping: Sequence[int | None]) -> None:
        """Go on where ``old`` was, whose ``give_out`` was the last it did. ``mapping`` gives the index here for each of
        its members, None if it is gone."""
        for now, total in zip(mapping, old.totals, strict=True):
            if now is not None:
                self.totals[now] += total
        self.diverted += old.diverted
        self._last = mapping[old._last] if old._last is not None else None
        rest = [now for i in old._plan.order[old._plan.repeat_from :] if (now := mapping[i]) is not None]
        if rest:
            self._plan = Plan(tuple(rest))

    def _handed(self, count: int) -> Handed:
        """What ``count`` hand-outs of the present plan are."""
        order, again = self._plan.order, self._plan.order[self._plan.repeat_from :]
        passes, rest = divmod(max(0, count - len(order)), len(again))
        counts = Counter(order[:count])
        counts.update(again[:rest])
        if passes:
            counts.update({member: passes * times for member, times in Counter(again).items()})
        if count <= len(order):
            last = order[count - 1] if count else self._last
        else:
            last = again[rest - 1]
        return Handed(self._plan, tuple(counts[i] for i in range(len(self.totals))), last)

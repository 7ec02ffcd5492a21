"""The plans of pools with a backup: blends each pool's plan with selections from its backup, by the spillover share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lbdns.answering.member_selection import PlanCursor
from lbdns.choosing.chooser import Chooser
from lbdns.choosing.spillover import BackupUse, Spillover
from lbdns.policies.blended_plan import blended_plan
from lbdns.policies.plan import Plan, Selections
from lbdns.policies.steps import Steps, finish


@dataclass(slots=True)
class _Parts:
    """The plans that a cursor's plan was made of, each with the member that it selected last."""

    own: Plan | None = None
    backup: Plan | None = None
    own_last: int | None = None
    backup_last: int | None = None
    share: float = 0.0
    credit: float = 0.0  # selections that the backup is still owed


class BackupPlans:
    """One pool's spillover to the pool ``backup``, and the plans of its cursors.

    ``names`` contains the full names of the pool's own members, whose number is ``members``, and then those of the
    backup's members.
    """

    def __init__(self, backup: str, names: Sequence[str], members: int) -> None:
        self.backup, self.members = backup, members
        self._names = tuple(names)
        self.spillover = Spillover()
        self.round = 0  # how often the backup had been planned when this pool was planned last
        self._parts: dict[str, _Parts] = {}  # by policy
        self._counted: Counter[str] | None = None

    def take_over(self, old: BackupPlans) -> None:
        """Continue with the share of ``old``, the same pool's plans before a reload of the configuration."""
        if old.backup == self.backup:
            self.spillover = old.spillover

    def count(self, answers: Counter[str], now: float) -> None:
        """Record other processes' answers so far, by full name."""
        before, self._counted = self._counted, answers.copy()
        if before is not None:
            counts = [max(0, answers[name] - before[name]) for name in self._names]
            self.spillover.count(sum(counts[: self.members]), sum(counts[self.members :]), now)

    def update(self, own: Chooser, backup: Chooser, now: float) -> bool:
        """Return whether the share of the answers that goes to the backup has changed."""
        before = self.spillover.share, self.spillover.why
        self.spillover.update(own.tier_load(), backup.tier_load(), now)
        return before != (self.spillover.share, self.spillover.why)

    def split(self, selections: Selections, policy: str) -> tuple[Selections | None, Selections | None]:
        """Return two values: the selections of the pool's own members, and those of the backup's members, each with the
        plan that made them. A value is None if there was no such plan."""
        parts = self._parts.setdefault(policy, _Parts())
        last, size = selections.last, self.members
        if last is not None:
            if last < size:
                parts.own_last = last
            else:
                parts.backup_last = last - size
        own = parts.own or (Plan(tuple(range(size))) if size else None)
        return (
            Selections(own, selections.counts[:size], parts.own_last) if own else None,
            Selections(parts.backup, selections.counts[size:], parts.backup_last) if parts.backup else None,
        )

    def end_and_plan(
        self, policy: str, cursor: PlanCursor, own: Chooser, backup: Chooser, now: float
    ) -> Selections | None:
        """End the cursor's plan, and set its next one. Return the ended plan's selections of the pool's own members."""
        return finish(self.end_and_plan_steps(policy, cursor, own, backup, now))

    def end_and_plan_steps(
        self, policy: str, cursor: PlanCursor, own: Chooser, backup: Chooser, now: float
    ) -> Steps[Selections | None]:
        """Do the same as ``end_and_plan``, in steps."""
        selections = cursor.selections()
        mine, theirs = self.split(selections, policy)
        parts, share = self._parts[policy], self.spillover.share
        spilled, total = selections.counts[self.members :], sum(selections.counts)
        self.spillover.count(total - sum(spilled), sum(spilled), now)
        parts.credit = min(1.0, max(-1.0, parts.credit + parts.share * total - sum(spilled))) if parts.share else 0.0
        backup.count_spilled(policy, spilled, now)
        yield
        parts.own = (yield from own.plan_steps(policy, mine, now)) if self.members else None
        parts.backup, parts.share = None, share
        usable: tuple[int, ...] = own.liveness.candidates if share < 1 else ()
        if share or parts.own is None:
            ranks = own.ranks
            parts.backup = yield from backup.plan_for_other(policy, theirs, now, ranks=ranks)
            usable = (*usable, *(i + self.members for i in backup.liveness.candidates))
            yield
            whole = blended_plan(parts.own, parts.backup, self.members, share, parts.credit)
            cursor.set_plan(whole, usable, selections)
        else:
            assert parts.own is not None
            cursor.set_plan(parts.own, usable, selections)
        return mine

    @property
    def is_used(self) -> bool:
        """Return whether answers may name the backup's members."""
        return self.spillover.share > 0 or not self.members

    def own_plan(self, policy: str) -> Plan | None:
        """Return the part of the current plan that selects the pool's own members."""
        return self._parts[policy].own

    @property
    def use(self) -> BackupUse:
        """Return how many of the answers go to the backup, and why."""
        if not self.members:
            return BackupUse(self.backup, 1.0, "has no member")
        return BackupUse(self.backup, self.spillover.share, self.spillover.why)

"""Keeps a farm's plans current: for each pool, observes the snapshot and passes new plans to the plan cursors."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Final

from lbdns.answering.member_selection import PlanCursor
from lbdns.answering.pool_cursors import PlanCursors, all_totals, order_cursors
from lbdns.choosing.chooser import Chooser
from lbdns.model.farm import Farm, Pool
from lbdns.model.liveness import Liveness, site_members
from lbdns.model.other_answers import OtherAnswers
from lbdns.model.overrides import Overrides
from lbdns.model.pool_sites import same_orders
from lbdns.model.snapshot import Snapshot
from lbdns.native_extension import provides
from lbdns.planning.backup_plans import BackupPlans
from lbdns.planning.shadow import ShadowPlans
from lbdns.planning.site_plans import SitePlans
from lbdns.planning.state_announcer import StateAnnouncer
from lbdns.policies.plan import Plan, Selections
from lbdns.policies.steps import Steps, finish

log = logging.getLogger("lbdns.planning")

AT_ONCE: Final = 50  # readings recorded at once: less than a millisecond of work, even without the native extension
#: Readings of a large pool that are recorded in one step
FEW: Final = 100 if provides("observe_members") else 20
LARGE: Final = 500  # members: smaller pools are planned in one turn, which takes a few milliseconds at most
RETRY: Final = 1.0  # s until a pool is planned again after an error, unless a report or an override comes first
#: Pool -> answers so far by full member name
AnswerCounts = Callable[[str], Counter[str]]
#: (pool, policy) -> selections so far, by member
CursorTotals = Mapping[tuple[str, str], Sequence[int]]
#: Pool -> answers so far, by the order of the client's sites and the site of the member
SiteAnswerCounts = Callable[[str], Mapping[tuple[str, str], int]]


class FailOpenTimes:
    """Records how often and for how long pools have failed open. Times are in monotonic seconds."""

    def __init__(self) -> None:
        self.count = 0  # summed over all pools
        self._seconds: dict[str, float] = {}  # pool -> total of its ended periods
        self._since: dict[str, float] = {}  # pool that fails open now -> when it began

    def begin(self, pool: str, now: float) -> None:
        """Record that ``pool`` has begun to fail open."""
        self.count += 1
        self._since.setdefault(pool, now)

    def end(self, pool: str, now: float) -> None:
        """Record that ``pool`` no longer fails open."""
        self._seconds[pool] = self.seconds(pool, now)
        self._since.pop(pool, None)

    def seconds(self, pool: str, now: float) -> float:
        """Return the total time that ``pool`` has spent failing open, in seconds."""
        return self._seconds.get(pool, 0.0) + now - self._since.get(pool, now)


class FarmPlans:
    """The choosers, plan cursors and shadows of all pools, together with their shared inputs."""

    def __init__(
        self,
        announcer: StateAnnouncer,
        answers: AnswerCounts | None,
        detects_black_holes: bool,
        site_answers: SiteAnswerCounts | None = None,
    ) -> None:
        """``answers`` and ``site_answers`` return other processes' selections; they are None if this process selects
        members itself.
        """
        self.choosers: dict[str, Chooser] = {}
        self.cursors: PlanCursors = {}
        self.backups: dict[str, BackupPlans] = {}  # by pool with a backup
        self.sites: dict[str, SitePlans] = {}  # by pool with sites
        self._selectable: dict[str, tuple[str, ...]] = {}  # by pool: full names, in the order of the cursors
        self._pools: dict[str, Pool] = {}
        self.shadows = ShadowPlans()
        self.fail_open = FailOpenTimes()
        self.announcer = announcer
        self._answers, self._site_answers = answers, site_answers
        self._detects_black_holes = detects_black_holes
        self._rng = Random()
        self._outdated: set[str] = set()  # pools whose plans must be made even if nothing has changed
        self._retry_at: dict[str, float] = {}  # pool whose planning has failed -> when to try again (monotonic s)
        self._counted: dict[str, Counter[str]] = {}  # pool -> answers when they were last counted
        self._continuing: PlanCursors | None = None  # the cursors of the last ``continue_with`` call, before ``use``
        self._carried: CursorTotals = {}  # what these cursors had selected when they began to be used
        self._rounds: Counter[str] = Counter()  # how often each pool has been planned
        #: Answers by the cursors of earlier configurations, without those that the current cursors carry over
        self._ended: Counter[tuple[str, str]] = Counter()

    def use(self, farm: Farm, cursors: PlanCursors, now: float) -> None:
        """Switch to another configuration, and keep the state of all members that it still contains.

        Until the next ``plan`` call for a pool, the pool's cursors continue with the remaining members of their old
        plans.
        """
        if cursors is not self._continuing:
            self.continue_with(farm, cursors)
        self._continuing = None
        ended = self.answers()
        before, self.choosers = self.choosers, {}
        backups, self.backups = self.backups, {}
        sites, self.sites = self.sites, {}
        self._selectable = {}
        self._pools = {pool.name: pool for pool in farm.pools}
        for pool in farm.pools:
            chooser = self._new_chooser(farm, pool)
            if pool.name in before:
                chooser.take_over(before[pool.name])
            elif pool.members:
                self.fail_open.begin(pool.name, now)
                self.announcer.new_pool(pool, now)
            self.choosers[pool.name] = chooser
            self._selectable[pool.name] = tuple(member.full_name for member in pool.selectable)
            if pool.config.backup and self._detects_black_holes:  # a collector does not know the answers
                names = [member.full_name for member in pool.selectable]
                self.backups[pool.name] = BackupPlans(pool.config.backup, names, len(pool.members))
                if pool.name in backups:
                    self.backups[pool.name].take_over(backups[pool.name])
            if pool.sites:
                self.sites[pool.name] = SitePlans(pool.sites.members, pool.sites.orders, len(set(pool.owners.values())))
                if pool.name in sites:
                    self.sites[pool.name].take_over(sites[pool.name])
        self.shadows.use(farm, self.cursors)
        carried = Counter[tuple[str, str]]()
        self._count_by_pool(carried, self._carried)
        ended.subtract(carried)
        self.cursors, self._ended = cursors, ended
        self._outdated = {pool.name for pool in farm.pools}
        self._counted.clear()
        self._retry_at.clear()

    def continue_with(self, farm: Farm, cursors: PlanCursors) -> None:
        """Make the ``cursors`` of another configuration continue with the remaining members of the plans in force.

        Call this method before the cursors are used, and then ``use``, which takes longer.
        """
        for pool in farm.pools:
            if pool.name in self.choosers:
                self._carry_over(self._pools[pool.name], pool, self._selectable[pool.name], cursors)
        self._continuing, self._carried = cursors, _totals(cursors)

    def answers(self) -> Counter[tuple[str, str]]:
        """Return the number of this process's answers so far, keyed by pool (including removed pools) and policy."""
        found = self._ended.copy()
        self._count_by_pool(found, _totals(self.cursors))
        return found

    def count_others(self, answers: OtherAnswers, now: float) -> None:
        """Count the answers of another DNS server. Those that name a backup's members count as answers of the
        backup."""
        for chooser in self.choosers.values():
            chooser.hear(answers.heard)
        for (pool, policy), counts in answers.counts.items():
            backup = self.backups.get(pool)
            for name in (pool, *([backup.backup] if backup else [])):
                if (serving := self.choosers.get(name)) is not None:
                    serving.count_others(answers.server, policy, counts, answers.seconds, now)

    def fails_open(self, pool: str) -> bool:
        """Return whether a pool fails open. A pool whose backup stands in for it does not."""
        backup = self.backups.get(pool)
        return bool(self.choosers[pool].liveness.fail_open) and not (backup and backup.use.takes_all)

    def _count_by_pool(self, answers: Counter[tuple[str, str]], totals: CursorTotals) -> None:
        """Add ``totals`` to ``answers``. Selections of a backup's members count as answers of the backup."""
        for (pool, policy), counts in totals.items():
            backup, total = self.backups.get(pool), sum(counts)
            if backup:
                spilled = sum(counts[backup.members :])
                answers[backup.backup, policy] += spilled
                total -= spilled
            answers[pool, policy] += total

    @property
    def next_change(self) -> float:
        """Return the monotonic time in seconds at which the next plan expires or the next announcement is due, provided
        that no report arrives before."""
        retry_at = self._retry_at  # a pool whose planning failed may still be due, but must not be planned endlessly
        changes = [retry_at.get(name) or self._expiry(name, chooser) for name, chooser in self.choosers.items()]
        return min(*changes, self.announcer.next_end, math.inf)

    def _expiry(self, pool: str, chooser: Chooser) -> float:
        """Return when the plans of a pool expire if no report arrives."""
        waits = pool in self._outdated and pool in self.sites
        return min(chooser.next_change, self.sites[pool].due_at) if waits else chooser.next_change

    def backup_of(self, pool: str) -> str | None:
        """Return the name of the pool that ``pool`` uses as its backup, and which is planned with it."""
        backup = self.backups.get(pool)
        return backup.backup if backup else None

    def is_large(self, pool: str) -> bool:
        """Return whether planning ``pool`` takes so long that queries must be answered in between."""
        return len(self._selectable.get(pool, ())) >= LARGE

    def observe_some(self, pool: Pool, snapshot: Snapshot, most: int | None = None) -> bool:
        """Record at most ``most`` (default: ``AT_ONCE``) of the new readings of ``pool`` in ``snapshot``, which
        ``plan`` then need not record.

        Return whether there are more.
        """
        with suppress(Exception):  # ``plan`` meets the same error, and logs it
            return self.choosers[pool.name].observe_some(snapshot, AT_ONCE if most is None else most)
        return False

    def large_pool_steps(
        self, pool: Pool, snapshot: Snapshot, overrides: Overrides, clock: Callable[[], float]
    ) -> Steps[bool]:
        """Record all new readings of ``pool`` in ``snapshot``, and then plan it, in steps (see ``plan``)."""
        while self.observe_some(pool, snapshot, FEW):
            yield
        return (yield from self.plan_steps(pool, snapshot, overrides, clock()))

    def plan(self, pool: Pool, snapshot: Snapshot, overrides: Overrides, now: float) -> bool:
        """If the state of ``pool`` has changed, make new plans and announce the changes.

        Return whether the state has changed. An exception is logged and affects no other pool; this pool's last
        plans stay in force until planning succeeds.
        """
        return finish(self.plan_steps(pool, snapshot, overrides, now))

    def plan_steps(self, pool: Pool, snapshot: Snapshot, overrides: Overrides, now: float) -> Steps[bool]:
        """Do the same as ``plan``, in steps. Until the last step, the caller may only read the state of pools."""
        try:
            changed = yield from self._plan(pool, snapshot, overrides, now)
        except Exception:
            log.exception("pool %s: planning failed; its last plans stay in force", pool.name)
            self._retry_at[pool.name] = now + RETRY
            return False
        self._retry_at.pop(pool.name, None)
        return changed

    def _plan(self, pool: Pool, snapshot: Snapshot, overrides: Overrides, now: float) -> Steps[bool]:
        chooser = self.choosers[pool.name]
        before, guards_before = self._liveness(pool.name), (yield from chooser.guard_steps(now))
        if self._answers:
            self._count_selections(pool, self._answers, now)
        changed = yield from chooser.observe_steps(snapshot, overrides.for_pool(pool.name), now)
        backup = self.backups.get(pool.name)
        if backup:
            changed |= yield from self._update_backup(pool, backup, snapshot, overrides, now)
        sites = self.sites.get(pool.name)
        is_due = sites is None or sites.is_due(chooser, now)
        if not changed and not (is_due and pool.name in self._outdated):
            return False
        self._outdated.add(pool.name)  # until all plans are made, which may fail
        if sites and is_due:
            self._update_sites(pool, sites, now)
        liveness, guards = self._liveness(pool.name), (yield from chooser.guard_steps(now))
        if liveness.fail_open and not before.fail_open:
            self.fail_open.begin(pool.name, now)
        elif before.fail_open and not liveness.fail_open:
            self.fail_open.end(pool.name, now)
        self.announcer.states(pool, before, liveness, snapshot, overrides, now)
        if guards is not guards_before:  # the same object while no member has a guard
            self.announcer.guards(pool, guards_before, guards, liveness, now)
        yield
        if is_due:
            yield from self._make_plans(pool, chooser, now)
        return True

    def _make_plans(self, pool: Pool, chooser: Chooser, now: float) -> Steps[None]:
        for policy in dict.fromkeys(pool.owners.values()):
            cursor = self.cursors.get((pool.name, policy))
            if cursor:
                yield from self._set_plan(pool, policy, cursor, chooser, now)
        self._outdated.discard(pool.name)
        self._rounds[pool.name] += 1

    def _liveness(self, pool: str) -> Liveness:
        """Return a pool's liveness, which does not fail open while the backup stands in for the pool."""
        liveness = self.choosers[pool].liveness
        return replace(liveness, fail_open="") if liveness.fail_open and not self.fails_open(pool) else liveness

    def _set_plan(self, pool: Pool, policy: str, cursor: PlanCursor, chooser: Chooser, now: float) -> Steps[None]:
        selections: Selections | None
        plan: Plan | None
        if sites := self.sites.get(pool.name):  # such a pool has no shadow
            yield from sites.end_and_plan_steps(policy, cursor, chooser, now)
            return
        if backup := self.backups.get(pool.name):
            serving = self.choosers[backup.backup]
            selections = yield from backup.end_and_plan_steps(policy, cursor, chooser, serving, now)
            plan = backup.own_plan(policy)
        else:
            selections = cursor.selections()
            plan = yield from chooser.plan_steps(policy, selections, now)
            yield
            cursor.set_plan(plan, chooser.liveness.candidates, selections)
        if selections and plan:
            yield
            yield from self.shadows.follow(pool.name, policy, selections, plan, chooser, now)

    def _update_backup(
        self, pool: Pool, backup: BackupPlans, snapshot: Snapshot, overrides: Overrides, now: float
    ) -> Steps[bool]:
        """Plan the backup of ``pool``, and update the share of the answers that it gets.

        Return whether the pool needs new plans.
        """
        yield from self.plan_steps(self._pools[backup.backup], snapshot, overrides, now)
        if self._answers:
            backup.count(self._answers(pool.name), now)
        reason = backup.spillover.why
        changed = backup.update(self.choosers[pool.name], self.choosers[backup.backup], now)
        if reason != backup.spillover.why:
            self.announcer.backup(pool, reason, backup.spillover.why, now)
        fresh, backup.round = self._rounds[backup.backup] != backup.round, self._rounds[backup.backup]
        return changed or (fresh and backup.is_used)

    def _update_sites(self, pool: Pool, sites: SitePlans, now: float) -> None:
        """Update the shares of the ``sites`` of ``pool``, and announce why clients do not use their nearest site
        alone."""
        before = [use.why for use in sites.orders]
        if self._site_answers:
            sites.count(self._site_answers(pool.name))
        sites.update(self.choosers[pool.name], now)
        announced = set()
        for was, use in zip(before, sites.orders, strict=True):
            if was != use.why and use.sites[0] not in announced:
                announced.add(use.sites[0])
                self.announcer.site(pool, use.sites[0], was, use.why, now)

    def _count_selections(self, pool: Pool, answers: AnswerCounts, now: float) -> None:
        """Pass other processes' selections to the chooser only if it needs them, because counting is expensive."""
        chooser = self.choosers[pool.name]
        if not chooser.guard_rails.needs_counts:
            self._counted.pop(pool.name, None)
            return
        count = answers(pool.name).copy()
        before = self._counted.get(pool.name, count)
        self._counted[pool.name] = count
        chooser.count_selections([max(0, count[name] - before[name]) for name in chooser.members], now)

    def _new_chooser(self, farm: Farm, pool: Pool) -> Chooser:
        return Chooser(
            [member.full_name for member in pool.members],
            farm.config.collector.stale_after,
            pool.config.min_usable,
            self._rng,
            farm.config.server.dns_servers,
            ramp_up=pool.config.ramp_up,
            black_hole=pool.config.black_hole and self._detects_black_holes,
            max_cores=pool.config.max_cores,
            pool=pool.name,
            weights=_weights(pool),
            max_speed_gain=pool.config.max_speed_gain,
            ranks=pool.config.answers > 1,
            sites=site_members(pool),
            native=farm.config.server.plane != "python",
        )

    def _carry_over(self, before: Pool, pool: Pool, members: tuple[str, ...], cursors: PlanCursors) -> None:
        """Make the new ``cursors`` of ``pool`` continue the old plans with the remaining ``members``.

        ``before`` is the pool in the old configuration.
        """
        places = {member.full_name: index for index, member in enumerate(pool.selectable)}
        mapping = [places.get(member) for member in members]
        orders = same_orders(before.sites, pool.sites)
        for policy in dict.fromkeys(pool.owners.values()):
            old, new = self.cursors.get((pool.name, policy)), cursors.get((pool.name, policy))
            if old is None or new is None:
                continue
            for part, order in zip(order_cursors(old), orders, strict=True):
                if order is not None:
                    _continue(part, order_cursors(new)[order], mapping)


def _continue(old: PlanCursor, new: PlanCursor, mapping: Sequence[int | None]) -> None:
    """Make ``new`` begin after the member that ``old`` selected last, so that a rotation continues."""
    order = [mapping[i] for i in old.order[old.plan.repeat_from :]]
    last = mapping[old.last] if old.last is not None else None
    begin = order.index(last) + 1 if last is not None and last in order else 0
    if rest := [i for i in order[begin:] + order[:begin] if i is not None]:
        ranking = [mapping[i] for i in old.plan.ranking]
        new.set_plan(Plan(tuple(rest), ranking=tuple(i for i in ranking if i is not None)))


def _weights(pool: Pool) -> Mapping[str, float]:
    """Return the configured weights by full member name."""
    weights = dict(pool.config.weights)
    return {member.full_name: weights[member.name] for member in pool.members if member.name in weights}


def _totals(cursors: PlanCursors) -> CursorTotals:
    return {key: all_totals(cursor) for key, cursor in cursors.items()}

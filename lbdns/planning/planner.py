"""The planner: makes each pool's plans when necessary, in short turns between queries, and announces changes."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from lbdns.answering.pool_cursors import PlanCursors
from lbdns.choosing.guard_rails.guard_rails import Guard
from lbdns.choosing.spillover import BackupUse
from lbdns.counting.answer_counters import AnswerCounters
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm, Pool
from lbdns.model.other_answers import OtherAnswers
from lbdns.model.overrides import NO_OVERRIDES, Overrides
from lbdns.model.snapshot import EMPTY_SNAPSHOT, Snapshot
from lbdns.planning.explanation import ScoreParts, explain, upcoming
from lbdns.planning.farm_plans import AnswerCounts, FarmPlans, SiteAnswerCounts
from lbdns.planning.large_pool import LargePoolPlanning
from lbdns.planning.site_plans import SitePlans
from lbdns.planning.state_announcer import StateAnnouncer
from lbdns.process.duty_cycle import DutyCycle

TURN: Final = 0.002  # s of planning before queries are answered again; 200 members take about 1.4 ms
LAST_STEP: Final = 0.001  # s after which no further step of planning a large pool begins in the same turn
#: Pause after a pass of several turns: planning takes at most about a tenth of a core
PLANNING: Final = DutyCycle(10.0, longest=1.0)
#: Pause after each pass of a planner that only observes: nobody waits for its results. 1,000 members take about 10 ms
OBSERVING: Final = DutyCycle(100.0, longest=5.0)


class Planner:
    """Makes new plans for a farm's pools whenever a snapshot, an override or the passage of time makes them necessary.

    Pools are planned one after another, a large pool in steps. If everything fits into one turn, the new plans are in
    force when ``deliver`` returns; otherwise, queries are answered between turns. A process without plan cursors (a
    collector or the parent of worker processes) only tracks the members' states.

    Use the planner only in the thread that runs ``loop``. Call ``stop`` when the planner is no longer needed.
    """

    def __init__(
        self,
        farm: Farm,
        cursors: PlanCursors,
        loop: asyncio.AbstractEventLoop,
        *,
        events: EventLog | None = None,
        answers: AnswerCounts | None = None,
        site_answers: SiteAnswerCounts | None = None,
        pause: DutyCycle | None = None,
    ) -> None:
        """``events`` records changes of members' states; pass None if another process records such changes.

        ``answers`` returns how many times each member of a pool has been selected so far, keyed by full name. A process
        that has no cursors but receives other processes' counts must pass ``answers``. Without cursors and ``answers``,
        the planner cannot detect black holes. ``site_answers`` returns the answers of a pool with sites.

        ``pause`` applies after every pass, and depends on the shorter of the last two passes. If it is None, the
        planner pauses only after a pass of several turns.
        """
        self._loop = loop
        self._pause = pause
        self._farm = farm
        knows_answers = bool(cursors) or answers is not None
        self._plans = FarmPlans(StateAnnouncer(events, knows_answers), answers, knows_answers, site_answers)
        self.snapshot: Snapshot = EMPTY_SNAPSHOT  # the newest; setting it does not start a pass, ``deliver`` does
        self.overrides: Overrides = NO_OVERRIDES  # in force
        self._subscribers: list[Callable[[], None]] = []
        self._timer: asyncio.Handle | None = None  # the next pass, or the next turn of this one
        self._announcing: asyncio.Handle | None = None  # the next turn of announcing changes
        self._due: dict[str, Pool] = {}  # pools still to be planned in this pass, by name
        self._large: LargePoolPlanning | None = None  # in progress; its pool is the first of those that are due
        self._repeat = False  # input arrived during this pass
        self._changed = False  # subscribers must be notified at the end of this pass
        self._spent = 0.0  # s spent on this pass
        self._worked = 0.0  # s spent on the last pass
        self._pause_until = -math.inf  # monotonic seconds
        self._elsewhere: dict[tuple[str, str], int] | None = None  # answers of other processes; None: not known yet
        self.use(farm, cursors)

    def use(self, farm: Farm, cursors: PlanCursors) -> None:
        """Switch to another configuration, and keep the state of all members that it still contains.

        Until a pool has new plans, its cursors continue with their old plans.
        """
        if self._large:
            self._large.finish()
            self._large = None
        self._plans.use(farm, cursors, self._loop.time())
        self._farm = farm
        self._restart()

    def continue_with(self, farm: Farm, cursors: PlanCursors) -> None:
        """Make the ``cursors`` of another configuration continue with the remaining members of the plans in force.

        If another thread uses the cursors as soon as they are in place, call this method first, and ``use`` later.
        """
        self._plans.continue_with(farm, cursors)

    def deliver(self, snapshot: Snapshot) -> None:
        """Record a new snapshot and make new plans for the pools that it affects."""
        self.snapshot = snapshot
        self._begin()

    def override(self, overrides: Overrides) -> None:
        """Replace the overrides in force.

        The affected pools get new plans before other pools, even during a planning pass or a pause. Only the planning
        of a large pool that has begun is completed first, in turns.
        """
        before, self.overrides = self.overrides, overrides
        affected = [pool for pool in self._farm.pools if before.for_pool(pool.name) != overrides.for_pool(pool.name)]
        names = {pool.name for pool in affected}
        if self._large and (self._large.pool in names or self._plans.backup_of(self._large.pool) in names):
            self._large.is_outdated = True
        self._restart(affected)

    def count_elsewhere(self, answers: Mapping[tuple[str, str], int]) -> None:
        """Record how many answers this server's other processes have sent in total, keyed by pool and policy.

        If a key is missing from ``answers``, its last total remains valid. The first call only sets the baseline for
        later calls.
        """
        self._change(partial(self._count_elsewhere, dict(answers), self._loop.time()))

    def _count_elsewhere(self, answers: Mapping[tuple[str, str], int], now: float) -> None:
        if self._elsewhere is None:
            self._elsewhere = dict(answers)
            return
        for (pool, policy), total in answers.items():
            count = max(0, total - self._elsewhere.get((pool, policy), 0))
            self._elsewhere[pool, policy] = total
            if pool in self._plans.choosers:
                self._plans.choosers[pool].count_elsewhere(policy, count, now)

    def count_others(self, answers: OtherAnswers) -> None:
        """Record what another DNS server has answered, and which servers are heard."""
        self._change(partial(self._plans.count_others, answers, self._loop.time()))

    def _change(self, change: Callable[[], None]) -> None:
        """Change the state of pools now, or as soon as the planning of a large pool has ended."""
        if self._large:
            self._large.defer(change)
        else:
            change()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` after any change to the snapshot, states or farm. Return a function that unsubscribes."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def stop(self) -> None:
        """Stop planning, and announce the remaining changes. Idempotent."""
        for handle in (self._timer, self._announcing):
            if handle:
                handle.cancel()
        if self._large:
            self._large.steps.close()
            self._large = None
        self._plans.announcer.announce(self._loop.time())

    def _restart(self, first: Sequence[Pool] = ()) -> None:
        """Begin a new planning pass immediately; end any pass or pause in progress."""
        self._pause_until = -math.inf
        self._due.clear()
        self._changed = True
        if self._large:
            first = [pool for pool in self._farm.pools if pool.name == self._large.pool] + list(first)
        self._begin(first)

    def _begin(self, first: Sequence[Pool] = ()) -> None:
        """Begin a pass over all pools, starting with those in ``first``; if a pass is in progress, wait until it has
        ended."""
        if self._due:
            self._repeat = True
            return
        self._due = {pool.name: pool for pool in (*first, *self._farm.pools)}
        if self._timer:
            self._timer.cancel()
        if self._loop.time() < self._pause_until:
            self._timer = self._loop.call_at(self._pause_until, self._take_turn)
        else:
            self._take_turn()

    def _take_turn(self) -> None:
        began = self._loop.time()
        while self._due:
            name, pool = next(iter(self._due.items()))
            if self._do_some(pool):
                del self._due[name]
            turn = LAST_STEP if self._large else TURN
            if self._loop.time() - began >= turn and self._due:
                self._spent += self._loop.time() - began
                self._timer = self._loop.call_soon(self._take_turn)
                return
        self._end_pass(began)

    def _do_some(self, pool: Pool) -> bool:
        """Do a part of the planning of ``pool``. Return whether its planning has ended."""
        plans = self._plans
        if self._large is None and not plans.is_large(pool.name):
            if plans.observe_some(pool, self.snapshot):
                return False
            self._changed |= plans.plan(pool, self.snapshot, self.overrides, self._loop.time())
            return True
        if self._large is None:
            steps = plans.large_pool_steps(pool, self.snapshot, self.overrides, self._loop.time)
            self._large = LargePoolPlanning(pool.name, steps)
        large = self._large
        changed = large.step()
        if changed is None:
            return False
        self._large = None
        self._changed |= changed
        return not large.is_outdated

    def _end_pass(self, began: float) -> None:
        """Announce changes, pause if necessary, schedule the next pass, and notify subscribers."""
        if self._announcing is None:
            self._announce()
        now = self._loop.time()
        worked, before = self._spent + now - began, self._worked
        self._worked = worked
        if self._pause:  # one slow pass, on a busy machine, must not delay the next one
            self._pause_until = now + self._pause.pause_after(min(worked, before))
        elif self._spent:
            self._pause_until = now + PLANNING.pause_after(worked)
        self._spent = 0.0
        when = max(now if self._repeat else self._plans.next_change, self._pause_until)
        self._repeat = False
        self._timer = self._loop.call_at(when, self._begin) if when < math.inf else None
        if self._changed:
            self._changed = False
            for callback in tuple(self._subscribers):
                callback()

    def _announce(self) -> None:
        """Announce changes for one turn; if changes are left, continue after a pause of the same length."""
        now = self._loop.time()
        left = self._plans.announcer.announce(now, lambda: self._loop.time() - now >= TURN)
        self._announcing = self._loop.call_later(TURN, self._announce) if left else None

    def answers(self) -> Counter[tuple[str, str]]:
        """Return the number of this process's answers so far, keyed by pool (including removed pools) and policy."""
        return self._plans.answers()

    def shadow_counters(self) -> AnswerCounters:
        """Return how many times the shadow policies would have selected each member."""
        return self._plans.shadows.counters(self._plans.cursors)

    @property
    def fail_opens(self) -> int:
        """Return how many times pools have begun to fail open, summed over all pools."""
        return self._plans.fail_open.count

    @property
    def failing_open(self) -> dict[str, bool]:
        """Return whether each pool is currently failing open, keyed by pool name."""
        return {name: self._plans.fails_open(name) for name in self._plans.choosers}

    @property
    def backup_shares(self) -> dict[str, float]:
        """Return the share of the answers that goes to the backup, keyed by the name of each pool with a backup."""
        return {name: plans.use.share for name, plans in self._plans.backups.items()}

    def backup(self, pool: str) -> BackupUse | None:
        """Return how many of the answers for ``pool`` go to its backup, and why, or None if it has no backup."""
        plans = self._plans.backups.get(pool)
        return plans.use if plans else None

    def sites(self, pool: str) -> SitePlans | None:
        """Return the plans of the sites of ``pool``, or None if it has no sites."""
        return self._plans.sites.get(pool)

    def fail_open_seconds(self, pool: str) -> float:
        """Return the total time that ``pool`` has spent failing open, in seconds."""
        return self._plans.fail_open.seconds(pool, self._loop.time())

    def capacities(self, pool: str) -> tuple[Sequence[float], bool]:
        """Return two values: the members' capacities in the pool's order, and whether they are observed rates in
        requests/s."""
        chooser = self._plans.choosers.get(pool)
        if chooser is None:
            return (), False
        return chooser.pool.weighted(chooser.pool.observed_capacities()), chooser.pool.measured

    def guards(self, pool: str) -> Sequence[Guard]:
        """Return each member's guard, in the pool's order."""
        choosers = self._plans.choosers
        return choosers[pool].guards(self._loop.time()) if pool in choosers else ()

    def upcoming(self, pool: Pool) -> dict[str, Any]:
        """Return the next answers under each policy of ``pool`` (see ``explanation.upcoming``), keyed by policy.

        The result is empty if this planner makes no plans for the pool.
        """
        chooser = self._plans.choosers.get(pool.name)
        if chooser is None or len(chooser.members) != len(pool.members):
            return {}
        now = self._loop.time()
        return {
            policy: upcoming(pool, policy, chooser, cursor, now, self.backup(pool.name), self.sites(pool.name))
            for policy in dict.fromkeys(pool.config.names.values())
            if (cursor := self._plans.cursors.get((pool.name, policy)))
        }

    def explain(self, pool: Pool, owner: str, parts: ScoreParts) -> dict[str, Any] | None:
        """Return the explanation of the next answer for ``owner`` in ``pool``, or None if ``owner`` has no plan."""
        plans = self._plans
        chooser = plans.choosers.get(pool.name)
        cursor = plans.cursors.get((pool.name, pool.config.names.get(owner, "")))
        if chooser is None or cursor is None or len(chooser.members) != len(pool.members):
            return None
        backup, sites = self.backup(pool.name), self.sites(pool.name)
        return explain(pool, owner, chooser, cursor, self.overrides, parts, self._loop.time(), backup, sites)

"""Keeps every pool's plans up to date: a snapshot comes in, new plans go out to the hand-outs, states are logged."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from lbdns.answering.handout import Handout
from lbdns.farm import Farm, Pool
from lbdns.liveness import Liveness
from lbdns.policies.chooser import Chooser
from lbdns.policies.guard_rails.guards import Guard
from lbdns.policies.plan import Plan
from lbdns.server.figures import Figures
from lbdns.server.shadowing import Shadows
from lbdns.snapshot import EMPTY, Snapshot

log = logging.getLogger("lbdns.server")

TURN: Final = 0.002  # s of planning before queries have their turn again; 200 members take about 1.4 ms
SHARE: Final = 10.0  # after planning that took several turns: a pause of ten times the work, a tenth of the core ...
LONGEST_PAUSE: Final = 1.0  # ... but never longer than this, in seconds

#: By pool and policy
Handouts = Mapping[tuple[str, str], Handout]


class Planner:
    """Joins the choosers of a farm with the hand-outs of its table, and tells subscribers when anything changed.

    Pools are planned one after another. A few are done before ``deliver`` returns; with many, queries are answered
    between them. The process that watches over others that answer has no hand-outs: it follows the states alone.
    """

    def __init__(
        self,
        farm: Farm,
        handouts: Handouts,
        loop: asyncio.AbstractEventLoop,
        *,
        logs: bool = True,
        answers: Callable[[str], Counter[str]] | None = None,
    ) -> None:
        """``logs``: whether it is for this one to say what becomes of members; ``answers``: how often the members of a
        pool were handed out so far, by full name, for who has no hand-outs of his own."""
        self.snapshot: Snapshot = EMPTY
        self.drained: frozenset[str] = frozenset()  # full names
        self.fail_opens = 0
        self._loop = loop
        self._log = log.log if logs else _say_nothing
        self._subscribers: list[Callable[[], None]] = []
        self._wake: asyncio.Handle | None = None  # the next look without a report, or the next turn of this one
        self._due: dict[str, Pool] = {}  # pools that are to be planned, by name
        self._afresh: set[str] = set()  # of these, whose plans are to be made whether there is news or not
        self._again = False  # something came while they were planned
        self._spent = 0.0  # s on the present pass
        self._rest_until = -math.inf
        self._news = False
        self._chance = Random()
        self._farm = farm
        self._choosers: dict[str, Chooser] = {}
        self._handouts: Handouts = {}
        self._answers = answers
        self._counted: dict[str, Counter[str]] = {}  # by pool: these answers, when they mattered last
        self._shadows = Shadows()
        self._answered: Counter[tuple[str, str]] = Counter()  # by pool and policy, out of plans that are over
        self._elsewhere: dict[tuple[str, str], int] | None = None  # by pool and policy; None: not told yet
        self.use(farm, handouts)

    def use(self, farm: Farm, handouts: Handouts) -> None:
        """Plan for another configuration from now on; what is known of members that it still has is kept.

        Until a pool has its turn it goes on with the plan it had.
        """
        before, self._choosers = self._choosers, {}
        for pool in farm.pools:
            chooser = self._chooser(farm, pool)
            if pool.name in before:
                chooser.take_over(before[pool.name])
                self._carry_over(pool, before[pool.name].members, handouts)
            else:
                self.fail_opens += 1
                self._log(logging.INFO, "pool %s: no report yet: all members take turns until there is one", pool.name)
            self._choosers[pool.name] = chooser
        self._answered = self.answers()
        self._shadows.use(farm, self._handouts)
        self._farm, self._handouts = farm, handouts
        self._afresh = {pool.name for pool in farm.pools}
        self._counted.clear()
        self._rest_until = -math.inf
        self._due.clear()
        self._begin(news=True)

    def deliver(self, snapshot: Snapshot) -> None:
        """A new snapshot: plan anew where it says something new."""
        self.snapshot = snapshot
        self._begin()

    def drain(self, members: frozenset[str]) -> None:
        """Hand out no longer those with these full names, and everybody else again."""
        self.drained = members
        self._begin(news=True)

    def answers(self) -> Counter[tuple[str, str]]:
        """How many answers this process has given by pool and policy, since it began: also for what is gone."""
        found = self._answered.copy()
        for key, handout in self._handouts.items():
            found[key] += handout.counts().total()
        return found

    def hear(self, elsewhere: Mapping[tuple[str, str], int]) -> None:
        """How many answers by pool and policy other processes of this server have given in all; what isn't named is as
        before. The first time it is what there is to count from."""
        if self._elsewhere is None:
            self._elsewhere = dict(elsewhere)
            return
        for (pool, policy), count in elsewhere.items():
            news = max(0, count - self._elsewhere.get((pool, policy), 0))
            self._elsewhere[pool, policy] = count
            if pool in self._choosers:
                self._choosers[pool].hear(policy, news, self._loop.time())

    def shadow_figures(self) -> Figures:
        """What was counted of what is tried beside the policies that answer."""
        return self._shadows.figures(self._handouts)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have ``callback`` called after snapshot, states or farm changed; returns how to end it."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    @property
    def failing_open(self) -> dict[str, bool]:
        """By pool, whether it fails open now."""
        return {name: bool(chooser.liveness.fail_open) for name, chooser in self._choosers.items()}

    def guards(self, pool: str) -> Sequence[Guard]:
        """What keeps each member of a pool from its whole share although it is usable, in the pool's order."""
        return self._choosers[pool].guards(self._loop.time()) if pool in self._choosers else ()

    def stop(self) -> None:
        if self._wake:
            self._wake.cancel()

    def _begin(self, news: bool = False) -> None:
        """Every pool is due; once more if they are at it already."""
        self._news = self._news or news
        if self._due:
            self._again = True
            return
        self._due = {pool.name: pool for pool in self._farm.pools}
        if self._wake:
            self._wake.cancel()
        if self._loop.time() < self._rest_until:
            self._wake = self._loop.call_at(self._rest_until, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Plan the pools that are due until the turn is over."""
        began = self._loop.time()
        while self._due:
            name, pool = next(iter(self._due.items()))
            del self._due[name]
            self._plan(pool)
            if self._loop.time() - began >= TURN and self._due:
                self._spent += self._loop.time() - began
                self._wake = self._loop.call_soon(self._go_on)
                return
        self._end(began)

    def _plan(self, pool: Pool) -> None:
        now = self._loop.time()
        chooser = self._choosers[pool.name]
        before, guards = chooser.liveness, chooser.guards(now)
        if self._answers:
            self._hear_members(pool, self._answers, now)
        if not chooser.observe(self.snapshot, self.drained, now) and pool.name not in self._afresh:
            return
        self._afresh.discard(pool.name)
        self._news = True
        self._tell(pool, before, chooser.liveness)
        if (guards_now := chooser.guards(now)) is not guards:  # one and the same as long as there is nothing to say
            self._tell_guards(pool, guards, guards_now, now)
        for policy in dict.fromkeys(pool.owners.values()):
            handout = self._handouts.get((pool.name, policy))
            if handout:
                handed = handout.handed()
                self._answered[pool.name, policy] += sum(handed.counts)
                plan = chooser.plan(policy, handed, now)
                handout.set_plan(plan, chooser.liveness.candidates)
                self._shadows.follow(pool.name, policy, handed, plan, chooser, now)

    def _end(self, began: float) -> None:
        """All are planned: rest if it took long, and have a look when the next state changes because nothing comes."""
        now = self._loop.time()
        if self._spent:
            self._rest_until = now + min(SHARE * (self._spent + now - began), LONGEST_PAUSE)
        self._spent = 0.0
        next_change = min((c.next_change for c in self._choosers.values()), default=math.inf)
        when = max(now if self._again else next_change, self._rest_until)
        self._again = False
        self._wake = self._loop.call_at(when, self._begin) if when < math.inf else None
        if self._news:
            self._news = False
            for callback in tuple(self._subscribers):
                callback()

    def _tell(self, pool: Pool, before: Liveness, now: Liveness) -> None:
        for member, was, state in zip(pool.members, before.states, now.states, strict=True):
            if was != state:
                level = logging.INFO if state == "usable" else logging.WARNING
                self._log(level, "pool %s: %s is %s (was %s)", pool.name, member.name, state, was)
        if now.fail_open and not before.fail_open:
            self.fail_opens += 1
            what = "pool %s: fails open: %s; all that are not drained take turns"
            self._log(logging.WARNING, what, pool.name, now.fail_open)
        elif before.fail_open and not now.fail_open:
            self._log(logging.INFO, "pool %s: no longer fails open", pool.name)

    def _tell_guards(self, pool: Pool, before: Sequence[Guard], after: Sequence[Guard], now: float) -> None:
        states = self._choosers[pool.name].liveness.states
        for member, was, guard, state in zip(pool.members, before, after, states, strict=True):
            if guard.quarantined and not was.quarantined:
                self._log(logging.WARNING, "pool %s: %s is quarantined: %s", pool.name, member.name, guard.why)
            elif was.quarantined and guard.why:
                what = "pool %s: %s is handed out again, since the others can't carry it all; still: %s"
                self._log(logging.WARNING, what, pool.name, member.name, guard.why)
            elif was.quarantined and state == "usable":
                what = "pool %s: %s is no longer quarantined (%s, for %.0f s)"
                self._log(logging.INFO, what, pool.name, member.name, was.why, now - was.since)

    def _hear_members(self, pool: Pool, answers: Callable[[str], Counter[str]], now: float) -> None:
        """Tell the chooser how often members were handed out, while that matters: adding it up has its price."""
        chooser = self._choosers[pool.name]
        if not chooser.needs_counts:
            self._counted.pop(pool.name, None)
            return
        count = answers(pool.name).copy()
        before = self._counted.get(pool.name, count)
        self._counted[pool.name] = count
        chooser.hear_members([max(0, count[name] - before[name]) for name in chooser.members], now)

    def _chooser(self, farm: Farm, pool: Pool) -> Chooser:
        members = [member.full_name for member in pool.members]
        stale_after = farm.config.collector.stale_after
        config = pool.config
        return Chooser(
            members,
            stale_after,
            config.min_usable,
            self._chance,
            farm.config.server.dns_servers,
            ramp_up=config.ramp_up,
            black_hole=config.black_hole,
        )

    def _carry_over(self, pool: Pool, members: tuple[str, ...], handouts: Handouts) -> None:
        """Hand out the plans there were, of the members that remain, until there are new ones."""
        now = {member.full_name: index for index, member in enumerate(pool.members)}
        mapping = [now.get(member) for member in members]
        for policy in dict.fromkeys(pool.owners.values()):
            old, new = self._handouts.get((pool.name, policy)), handouts.get((pool.name, policy))
            if old and new:
                # Behind the one handed out last, so that a rotation goes on
                order = [mapping[i] for i in old.order[old.plan.repeat_from :]]
                last = mapping[old.last] if old.last is not None else None
                begin = order.index(last) + 1 if last is not None and last in order else 0
                if rest := [i for i in order[begin:] + order[:begin] if i is not None]:
                    new.set_plan(Plan(tuple(rest)))


def _say_nothing(*_: object) -> None:
    pass

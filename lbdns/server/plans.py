"""Keeps every pool's plans up to date: a snapshot comes in, new plans go out to the hand-outs, states are told."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from lbdns.answering.handout import Handout
from lbdns.events import Events, Kind
from lbdns.explanation import Parts, explain, reason
from lbdns.farm import Farm, Pool
from lbdns.liveness import Liveness
from lbdns.overrides import NO_OVERRIDES, Overrides
from lbdns.policies.chooser import Chooser
from lbdns.policies.guard_rails.guards import Guard
from lbdns.policies.plan import Plan
from lbdns.server.figures import Figures
from lbdns.server.shadowing import Shadows
from lbdns.snapshot import EMPTY, Snapshot

TURN: Final = 0.002  # s of planning before queries have their turn again; 200 members take about 1.4 ms
SHARE: Final = 10.0  # after planning that took several turns: a pause of ten times the work, a tenth of the core ...
LONGEST_PAUSE: Final = 1.0  # ... but never longer than this, in seconds

#: By pool and policy
Handouts = Mapping[tuple[str, str], Handout]


class Planner:
    """Joins the choosers of a farm with the hand-outs of its table, and tells subscribers when anything changed.

    Pools are planned one after another. A few are done before ``deliver`` returns; with many, queries are answered
    between them. The process that watches over others that answer has no hand-outs: it follows the states alone. So
    does a collector, which does not know either what is handed out: it can't tell who takes hand-outs and serves none.
    """

    def __init__(
        self,
        farm: Farm,
        handouts: Handouts,
        loop: asyncio.AbstractEventLoop,
        *,
        events: Events | None = None,
        answers: Callable[[str], Counter[str]] | None = None,
    ) -> None:
        """``events``: where to tell what becomes of members, if that is for this one to do; ``answers``: how often the
        members of a pool were handed out so far, by full name, for who has no hand-outs of his own."""
        self.snapshot: Snapshot = EMPTY
        self.overrides: Overrides = NO_OVERRIDES
        self.fail_opens = 0
        self._failed_open: dict[str, float] = {}  # s, by pool, until it last stopped to
        self._open_since: dict[str, float] = {}  # by pool that fails open
        self._loop = loop
        self._events = events
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
        self._knows_answers = bool(handouts) or answers is not None
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
                self._open_since.setdefault(pool.name, self._loop.time())
                what = f"pool {pool.name}: no report yet: all members take turns until there is one"
                self._say("fail_open", logging.INFO, pool, what)
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

    def override(self, overrides: Overrides) -> None:
        """Go by these orders from now on, and by no others: at once, whatever is being planned."""
        before, self.overrides = self.overrides, overrides
        steered = [pool for pool in self._farm.pools if before.steering(pool.name) != overrides.steering(pool.name)]
        self._rest_until = -math.inf
        self._due.clear()
        self._begin(news=True, first=steered)

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

    def fail_open_seconds(self, pool: str) -> float:
        """For how long the pool has failed open, in all."""
        since = self._open_since.get(pool)
        return self._failed_open.get(pool, 0.0) + (self._loop.time() - since if since is not None else 0.0)

    def capacities(self, pool: str) -> tuple[Sequence[float], bool]:
        """What each member of a pool can carry, in its order, and whether that is requests/s, as seen."""
        chooser = self._choosers.get(pool)
        return (chooser.capacities(), chooser.measured) if chooser else ((), False)

    def explain(self, pool: Pool, owner: str, parts: Parts) -> dict[str, Any] | None:
        """Why ``owner`` of ``pool`` is answered as it is; None if nobody is handed out for it here."""
        chooser = self._choosers.get(pool.name)
        handout = self._handouts.get((pool.name, pool.config.names.get(owner, "")))
        if chooser is None or handout is None or len(chooser.members) != len(pool.members):
            return None
        return explain(pool, owner, chooser, handout, self.overrides, parts, self._loop.time())

    def guards(self, pool: str) -> Sequence[Guard]:
        """What keeps each member of a pool from its whole share although it is usable, in the pool's order."""
        return self._choosers[pool].guards(self._loop.time()) if pool in self._choosers else ()

    def stop(self) -> None:
        if self._wake:
            self._wake.cancel()

    def _begin(self, news: bool = False, first: Sequence[Pool] = ()) -> None:
        """Every pool is due, these before others; once more if they are at it already."""
        self._news = self._news or news
        if self._due:
            self._again = True
            return
        self._due = {pool.name: pool for pool in (*first, *self._farm.pools)}
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
        if (
            not chooser.observe(self.snapshot, self.overrides.steering(pool.name), now)
            and pool.name not in self._afresh
        ):
            return
        self._afresh.discard(pool.name)
        self._news = True
        self._tell(pool, before, chooser.liveness, now)
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

    def _tell(self, pool: Pool, before: Liveness, now: Liveness, at: float) -> None:
        for member, was, state in zip(pool.members, before.states, now.states, strict=True):
            if was != state:
                ordered = self.overrides.of(pool.name, member.full_name)
                why = reason(state, self.snapshot.readings.get(member.full_name), ordered, at)
                # A drain is no trouble: somebody wanted it, and that has been told
                level = logging.INFO if state in ("usable", "drained") else logging.WARNING
                what = f"pool {pool.name}: {member.name} is {state} (was {was}){': ' + why if why else ''}"
                self._say("state", level, pool, what, member.name)
        if now.fail_open and not before.fail_open:
            self.fail_opens += 1
            self._open_since[pool.name] = at
            what = f"pool {pool.name}: fails open: {now.fail_open}; all that are not drained are handed out"
            self._say("fail_open", logging.WARNING, pool, what)
        elif before.fail_open and not now.fail_open:
            since = self._open_since.pop(pool.name, at)
            self._failed_open[pool.name] = self._failed_open.get(pool.name, 0.0) + at - since
            self._say("fail_open", logging.INFO, pool, f"pool {pool.name}: no longer fails open")

    def _tell_guards(self, pool: Pool, before: Sequence[Guard], after: Sequence[Guard], now: float) -> None:
        states = self._choosers[pool.name].liveness.states
        for member, was, guard, state in zip(pool.members, before, after, states, strict=True):
            who, level = f"pool {pool.name}: {member.name}", logging.WARNING
            if guard.quarantined and not was.quarantined:
                what = f"{who} is quarantined: {guard.why}"
            elif was.quarantined and guard.why:
                what = f"{who} is handed out again, since the others can't carry it all; still: {guard.why}"
            elif was.quarantined and state == "usable":
                what, level = f"{who} is no longer quarantined ({was.why}, for {now - was.since:.0f} s)", logging.INFO
            else:
                continue
            self._say("guard", level, pool, what, member.name)

    def _say(self, kind: Kind, level: int, pool: Pool, what: str, member: str = "") -> None:
        if kind == "fail_open" and not self._knows_answers:
            return  # a collector hands nobody out, and nobody takes turns there
        if self._events:
            self._events.tell(kind, what, level=level, pool=pool.name, member=member, logger="lbdns.server")

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
            black_hole=config.black_hole and self._knows_answers,
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

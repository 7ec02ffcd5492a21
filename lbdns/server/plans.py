"""Keeps every pool's plans up to date: a snapshot comes in, new plans go out to the hand-outs, states are logged."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from random import Random

from lbdns.answering.table import Table
from lbdns.farm import Farm, Pool
from lbdns.liveness import Liveness
from lbdns.policies.chooser import Chooser
from lbdns.snapshot import EMPTY, Snapshot

log = logging.getLogger("lbdns.server")


class Planner:
    """Joins the choosers of a farm with the hand-outs of its table, and tells subscribers when anything changed."""

    def __init__(self, table: Table, loop: asyncio.AbstractEventLoop) -> None:
        self.snapshot: Snapshot = EMPTY
        self.drained: frozenset[str] = frozenset()  # full names
        self.fail_opens = 0
        self._loop = loop
        self._subscribers: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._chance = Random()
        self._choosers: dict[str, Chooser] = {}
        self.use(table)

    def use(self, table: Table) -> None:
        """Plan for ``table`` from now on; what is known of members that it still has is kept."""
        before = self._choosers
        self._table = table
        self._choosers = {}
        for pool in table.farm.pools:
            chooser = _chooser(table.farm, pool, self._chance)
            if pool.name in before:
                chooser.take_over(before[pool.name])
            else:
                self.fail_opens += 1
                log.info("pool %s: no report yet: all members take turns until there is one", pool.name)
            self._choosers[pool.name] = chooser
        self._plan(everything=True)

    def deliver(self, snapshot: Snapshot) -> None:
        """A new snapshot: plan anew where it says something new."""
        self.snapshot = snapshot
        self._plan()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have ``callback`` called after snapshot, states or farm changed; returns how to end it."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    @property
    def failing_open(self) -> dict[str, bool]:
        """By pool, whether it fails open now."""
        return {name: bool(chooser.liveness.fail_open) for name, chooser in self._choosers.items()}

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _plan(self, everything: bool = False) -> None:
        now = self._loop.time()
        news = everything
        for pool in self._table.farm.pools:
            chooser = self._choosers[pool.name]
            before = chooser.liveness
            if chooser.observe(self.snapshot, self.drained, now) or everything:
                news = True
                self._tell(pool, before, chooser.liveness)
                for policy in dict.fromkeys(pool.owners.values()):
                    handout = self._table.handouts[pool.name, policy]
                    handout.set_plan(chooser.plan(policy, handout.handed(), now))
        self._wake_at(min((c.next_change for c in self._choosers.values()), default=math.inf))
        if news:
            for callback in tuple(self._subscribers):
                callback()

    def _wake_at(self, when: float) -> None:
        """States also change because nothing comes: have a look when the next one would."""
        if self._timer:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._plan) if when < math.inf else None

    def _tell(self, pool: Pool, before: Liveness, now: Liveness) -> None:
        for member, was, state in zip(pool.members, before.states, now.states, strict=True):
            if was != state:
                level = logging.INFO if state == "usable" else logging.WARNING
                log.log(level, "pool %s: %s is %s (was %s)", pool.name, member.name, state, was)
        if now.fail_open and not before.fail_open:
            self.fail_opens += 1
            log.warning("pool %s: fails open: %s; all that are not drained take turns", pool.name, now.fail_open)
        elif before.fail_open and not now.fail_open:
            log.info("pool %s: no longer fails open", pool.name)


def _chooser(farm: Farm, pool: Pool, chance: Random) -> Chooser:
    members = [member.full_name for member in pool.members]
    return Chooser(members, farm.config.collector.stale_after, pool.config.min_usable, chance)

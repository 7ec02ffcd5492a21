"""Spillover: decides which share of a pool's answers goes to its backup pool, because the pool is full or has no usable
member. Sans-I/O.

The pool's demand is estimated from the requests at its own members and from the share of the recent answers that named
them. Hysteresis prevents flapping: the pool counts as full from a higher demand than the one at which it stops
spilling, and the share changes only gradually, except when the pool loses its last usable member.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from lbdns.choosing.candidates import Candidates
from lbdns.choosing.moving_averages import FadingCounts
from lbdns.choosing.observed_pool import AVERAGE, REQUESTS, ObservedPool
from lbdns.choosing.reported_values import load_of
from lbdns.scores.headroom import MOST_RUNNABLE

FULL: Final = 0.9  # of its capacity: a pool with a higher demand is full, and a backup gets no more
KEPT: Final = 0.85  # of its capacity: the demand that a full pool keeps
CALM: Final = 0.8  # of its capacity: below this demand, a pool that was full no longer spills
BUSY: Final = 0.7  # of its capacity: the load of a member with a lower rate is not a backlog, but slow requests
RISE, FALL = 0.2, 0.05  # per second: how fast the share may change
STEP: Final = 0.02  # smaller changes of the share are chance
RELIABLE: Final = 0.05  # share of the answers: if fewer name the pool's own members, they show no demand
PATIENCE: Final = 5.0  # s to wait for a first report, because the backup's agents may only have reported sooner

#: Why a pool uses its backup
IS_FULL, NO_MEMBER, RETURNS = "is full", "has no usable member", "takes its clients back"


@dataclass(frozen=True, slots=True)
class TierLoad:
    """What a pool's usable members carry. Rates are in requests/s, or in busy cores if no requests were observed."""

    members: int  # usable members
    capacity: float = 0.0
    rate: float = 0.0  # the members' present rate, including what is needed to work off their backlogs
    unknown: bool = False  # no member has ever reported
    measured: bool = False  # whether rates are in requests/s


@dataclass(frozen=True, slots=True)
class BackupUse:
    """How many of a pool's answers go to its backup, and why."""

    pool: str  # the backup's name
    share: float = 0.0  # of the answers, from 0 to 1
    why: str = ""  # empty if the share is 0

    @property
    def text(self) -> str:
        """Return a description such as ``is full: 23 % to spare``, or an empty string if the backup is not used."""
        return f"{self.why}: {100 * self.share:.0f} % to {self.pool}" if self.share else ""

    @property
    def takes_all(self) -> bool:
        """Return whether the backup stands in for a pool that would fail open without it."""
        return self.share >= 1


def tier_load(pool: ObservedPool, candidates: Candidates) -> TierLoad:
    """Return what the usable members of ``pool`` carry.

    If all candidates are in alarm, they count as usable: an overloaded pool is full, not gone.
    """
    states = candidates.liveness.states
    serving = [i for i in candidates.liveness.candidates if states[i] == "usable"]
    if not serving:
        alarmed = [i for i in candidates.liveness.candidates if states[i] == "alarm"]
        failed = any((reading := pool.readings[i]) and reading.web_server_failed for i in alarmed)
        if not failed and len(alarmed) == len(candidates.liveness.candidates):
            serving = alarmed
    if not serving:
        return TierLoad(0, unknown=all(state == "unknown" for state in states))
    measured, cores = pool.measured, pool.cores
    capacity = pool.observed_capacities() if measured else tuple(cores)
    rates = pool.request_rates(capacity, margin=1.0) if measured else [_busy_cores(pool, i, cores[i]) for i in serving]
    by_member = {i: rates[i] if measured else rates[place] for place, i in enumerate(serving)}
    demand = 0.0
    for i in serving:
        rate = by_member[i] or 0.0
        backlog = (load_of(pool.metrics[i]) or 0.0) - MOST_RUNNABLE * max(1.0, cores[i])
        demand += rate + (max(0.0, backlog) / AVERAGE if rate > BUSY * capacity[i] else 0.0)
    return TierLoad(len(serving), sum(capacity[i] for i in serving), demand, measured=measured)


def _busy_cores(pool: ObservedPool, member: int, cores: float) -> float:
    idle = pool.metrics[member].get("cpu_idle")
    return 0.0 if idle is None else cores * min(1.0, max(0.0, 1 - idle / 100))


class Spillover:
    """The share of one pool's answers that goes to its backup. Times are in monotonic seconds."""

    def __init__(self) -> None:
        self.share = 0.0  # of the answers, from 0 to 1
        self.why = ""  # why the share is not 0
        self._demand = 0.0  # of the pool's clients, wherever they are sent
        self._full = False
        self._answers = FadingCounts(2, REQUESTS)  # of the pool's own members, and of the backup's members
        self._updated = -math.inf
        self._unknown_since: float | None = None

    def count(self, own: int, spilled: int, now: float) -> None:
        """Record the answers since the last call that named the pool's ``own`` members, and the backup's members."""
        self._answers.add((own, spilled), now)

    def update(self, own: TierLoad, backup: TierLoad, now: float) -> float:
        """Return the new share, given what the pool's ``own`` members and its ``backup`` carry."""
        seconds = min(AVERAGE, max(0.0, now - self._updated)) if self._updated > -math.inf else 0.0
        self._updated = now
        if not backup.members:
            self.share, self.why, self._full = 0.0, "", False
        elif not own.members:
            self._without_members(own, now)
        else:
            self._unknown_since = None
            self._approach(self._wanted(own, backup), seconds)
            if not self.share:
                self.why = ""
            elif self._full:
                self.why = IS_FULL
            elif self.why == NO_MEMBER:
                self.why = RETURNS
        return self.share

    def _without_members(self, own: TierLoad, now: float) -> None:
        if own.unknown and not self.share:
            self._unknown_since = now if self._unknown_since is None else self._unknown_since
            if now - self._unknown_since < PATIENCE:
                return
        self.share, self.why, self._full = 1.0, NO_MEMBER, False

    def _wanted(self, own: TierLoad, backup: TierLoad) -> float:
        """Return the share at which neither pool carries more than it can, or, if both are full, the share at which
        both are utilised alike."""
        mine, spilled = self._answers.values
        kept = mine / (mine + spilled) if mine + spilled > 0 else 1.0
        if kept >= RELIABLE:
            self._demand = own.rate / kept
        demand, capacity = self._demand, own.capacity
        if capacity <= 0 or demand <= 0:
            self._full = False
            return 0.0
        self._full = demand > (CALM if self._full else FULL) * capacity
        if not self._full:
            return 0.0
        if own.measured != backup.measured:  # the units differ: only the backup's own utilisation can be compared
            scale = capacity / own.members * backup.members / backup.capacity if backup.capacity > 0 else 0.0
            backup = TierLoad(backup.members, backup.capacity * scale, backup.rate * scale)
        others = max(0.0, backup.rate - demand * (1 - kept))  # what the backup carries for its own clients
        room = FULL * backup.capacity - others
        if demand + others > FULL * (capacity + backup.capacity):
            level = (demand + others) / (capacity + backup.capacity)
            return min(1.0, max(0.0, 1 - level * capacity / demand))
        return max(0.0, min(1 - KEPT * capacity / demand, room / demand))

    def _approach(self, wanted: float, seconds: float) -> None:
        gap = wanted - self.share
        if abs(gap) < STEP and wanted:
            return
        step = max(-FALL * seconds, min(RISE * seconds, gap))
        self.share = min(1.0, max(0.0, self.share + step))

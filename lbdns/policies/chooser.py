"""The chooser of one pool: from snapshots to plans. What the server and the simulator drive. Pure: time and chance
are arguments; nothing here is touched by a query."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lbdns.liveness import Liveness, assess
from lbdns.policies import POLICIES
from lbdns.policies.averages import ExponentialMean, WindowRate
from lbdns.policies.capacity import Work, capacities, loads
from lbdns.policies.plan import Handed, MemberView, Plan, PoolView, rotation
from lbdns.snapshot import NO_METRICS, Reading, Snapshot

if TYPE_CHECKING:
    from random import Random

FEW: Final = 2.0  # hand-outs per report interval, 10 s average: up to here somebody looks, above a crowd comes
AVERAGE: Final = 10.0  # s: the span of the averages
SUSPECT_AFTER: Final = 2.0  # observed intervals without a report


class _Observed:
    """What is known of one member beyond its newest reading."""

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.work = Work()
        self.requests_per_s = ExponentialMean(AVERAGE)
        self.between_reports = ExponentialMean(AVERAGE)

    def observe(self, reading: Reading) -> None:
        before, self.reading = self.reading, reading
        seconds = reading.received - before.received if before else 0.0
        if before and seconds > 0:
            self.between_reports.add(min(seconds, 10 * reading.interval), seconds)
        if before is None or reading.metrics is not before.metrics:
            self.work.observe(reading.metrics, seconds)
            if "requests_per_s" in reading.metrics:
                self.requests_per_s.add(reading.metrics["requests_per_s"], seconds or reading.interval)

    @property
    def interval(self) -> float:
        """Seconds between reports: as declared, or as they come if that is longer."""
        return max(self.reading.interval if self.reading else 0.0, self.between_reports.value or 0.0)

    @property
    def suspect_at(self) -> float:
        return self.reading.received + SUSPECT_AFTER * self.interval if self.reading else math.inf


class Chooser:
    """Keeps what policies need to know of one pool, and makes their plans.

    ``members`` are full names; ``stale_after`` is in report intervals; ``servers`` is the number of DNS servers
    that answer for the pool, each of which sees its own answers only.
    """

    def __init__(
        self,
        members: Sequence[str],
        stale_after: float,
        min_usable: float,
        chance: Random,
        servers: int = 1,
    ) -> None:
        self.members = tuple(members)
        self.stale_after, self.min_usable, self.servers = stale_after, min_usable, servers
        self._chance = chance
        self._observed = [_Observed() for _ in members]
        self._answers: dict[str, WindowRate] = {}
        self._now = -math.inf
        self.liveness: Liveness = assess(self.readings, [False] * len(self.members), 0.0, stale_after, min_usable)

    def take_over(self, old: Chooser) -> None:
        """Know what ``old`` knew, of the members that are here too; after a reload."""
        known = dict(zip(old.members, zip(old._observed, old.liveness.states, strict=True), strict=True))
        states = list(self.liveness.states)
        for i, member in enumerate(self.members):
            if member in known:
                self._observed[i], states[i] = known[member]
        self._answers = old._answers
        self.liveness = replace(self.liveness, states=tuple(states), fail_open=old.liveness.fail_open)

    @property
    def readings(self) -> list[Reading | None]:
        """The newest reading of each member."""
        return [observed.reading for observed in self._observed]

    @property
    def next_change(self) -> float:
        """When plans have to be made anew if no report comes, on the clock of ``now``; inf if never."""
        suspects = (
            observed.suspect_at
            for observed, state in zip(self._observed, self.liveness.states, strict=True)
            if state == "usable" and observed.suspect_at > self._now
        )
        return min(self.liveness.next_change, min(suspects, default=math.inf))

    def observe(self, snapshot: Snapshot, drained: Collection[str], now: float) -> bool:
        """Take in a snapshot; ``drained`` are members' full names. True if anything is new, so that plans are due."""
        news = False
        for name, observed in zip(self.members, self._observed, strict=True):
            reading = snapshot.readings.get(name)
            if reading is not None and reading is not observed.reading:
                observed.observe(reading)
                news = True
        due = now >= self.next_change
        flags = [name in drained for name in self.members]
        liveness = assess(self.readings, flags, now, self.stale_after, self.min_usable)
        news = news or due or liveness.states != self.liveness.states
        self.liveness = liveness
        self._now = now
        return news

    def plan(self, policy: str, handed: Handed | None, now: float) -> Plan:
        """A new plan of ``policy`` after ``handed`` was given out of its previous one."""
        answers = self._answers.setdefault(policy, WindowRate(AVERAGE))
        answers.add(now, sum(handed.counts) if handed else 0)
        if self.liveness.fail_open:
            return rotation(self.liveness.candidates, handed)
        return POLICIES[policy](self._view(answers, now), handed, self._chance)

    def _view(self, answers: WindowRate, now: float) -> PoolView:
        metrics = [observed.reading.metrics if observed.reading else NO_METRICS for observed in self._observed]
        capacity = capacities([o.work for o in self._observed], [m.get("cpu_count") for m in metrics])
        load = loads(metrics, capacity)
        candidates = set(self.liveness.candidates)
        heard = [o.interval for i, o in enumerate(self._observed) if i in candidates and o.reading]
        interval = sum(heard) / len(heard) if heard else 1.0
        rates = [o.requests_per_s.value for o in self._observed if o.requests_per_s.value is not None]
        return PoolView(
            members=tuple(
                MemberView(
                    usable=i in candidates,
                    suspect=now >= observed.suspect_at,
                    score=observed.reading.score if observed.reading else 0,
                    load=load[i],
                    capacity=capacity[i],
                )
                for i, observed in enumerate(self._observed)
            ),
            interval=interval,
            # Members that don't count requests leave the answers as the only measure
            requests_per_s=sum(rates) if rates else math.inf,
            answers_per_s=answers.rate(now) * self.servers,
            answers_allowed=self._allowed(answers.count(now), interval),
            fail_open=bool(self.liveness.fail_open),
        )

    def _allowed(self, answered: int, interval: float) -> int:
        """How many more hand-outs of this server still count as few, if none but these come before the next plan.

        While the average keeps to the limit, an interval's worth of them always does: the oldest leave the average
        as the newest enter it.
        """
        limit = FEW * AVERAGE / interval / self.servers
        if answered > limit:
            return 0
        return int(limit) - answered + math.ceil(FEW / self.servers)

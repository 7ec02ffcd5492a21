"""The chooser of one pool: from snapshots to plans. What the server and the simulator drive. Pure: time and chance
are arguments; nothing here is touched by a query."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns.liveness import Forced, Liveness, assess, state_of
from lbdns.overrides import NO_STEERING, Steering
from lbdns.policies import POLICIES, WEIGHING
from lbdns.policies.averages import ExponentialMean, FadingCounts, WindowRate
from lbdns.policies.best import HORIZON
from lbdns.policies.capacity import Work, believed, capacities, filled, load_of, loads, measured
from lbdns.policies.contention import Contention
from lbdns.policies.few import allowed, carry_a_crowd
from lbdns.policies.guard_rails.carrying import carried_ramps, demand, needed, spare
from lbdns.policies.guard_rails.guards import Guard, Guards
from lbdns.policies.guard_rails.ramp import RAMP_UP
from lbdns.policies.plan import Handed, MemberView, Plan, PoolView, rotation
from lbdns.snapshot import NO_METRICS, Reading, Snapshot

if TYPE_CHECKING:
    from random import Random

AVERAGE: Final = 10.0  # s: the span of the averages
JUST_NOW: Final = 1.0  # s: four times as long as it is from one count of other workers' answers to the next
HELD: Final = 10.0  # s: a web server under load is late with its own status page, and as busy as it was
SUSPECT_AFTER: Final = 2.0  # observed intervals without a report
LAST: Final = -1  # below every score: whom the pool can't do without is still not the best


class _Observed:
    """What is known of one member beyond its newest reading."""

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.metrics: Mapping[str, float] = NO_METRICS  # of this reading, as far as they can be
        self.work = Work()
        self.contention = Contention()
        self.requests_per_s = ExponentialMean(AVERAGE)
        self.between_reports = ExponentialMean(AVERAGE)
        self.at_work = ExponentialMean(AVERAGE)
        self._busy, self._busy_at = 0.0, -math.inf  # the last that the web server told of its workers, and when
        self.interval = 0.0  # s between reports: as declared, or as they come if that is longer
        self.suspect_at = math.inf

    def observe(self, reading: Reading) -> None:
        before, self.reading = self.reading, reading
        seconds = reading.received - before.received if before else 0.0
        if before and seconds > 0:
            self.between_reports.add(min(seconds, 10 * reading.interval), seconds)
        if before is None or reading.metrics is not before.metrics:
            self.metrics = metrics = self._with_busy_workers(believed(reading.metrics), reading.received)
            self.work.observe(metrics, seconds, own=max(1, round(seconds / reading.interval)))
            self.contention.observe(metrics, seconds)
            if "requests_per_s" in metrics:
                self.requests_per_s.add(metrics["requests_per_s"], seconds or reading.interval)
            if (load := load_of(metrics)) is not None:
                self.at_work.add(load, seconds or reading.interval)
        self.interval = max(reading.interval, self.between_reports.value or 0.0)
        self.suspect_at = reading.received + SUSPECT_AFTER * self.interval

    def _with_busy_workers(self, metrics: Mapping[str, float], now: float) -> Mapping[str, float]:
        """``metrics`` with the last busy workers when these alone are missing, for a while.

        By the run queue alone a server too busy to tell would seem to have emptied, and would be sent more.
        """
        if "busy_workers" in metrics:
            self._busy, self._busy_at = metrics["busy_workers"], now
        elif "run_queue" in metrics and now - self._busy_at <= HELD:
            return {**metrics, "busy_workers": self._busy}
        return metrics


class Chooser:
    """Keeps what policies need to know of one pool, and makes their plans.

    ``members`` are full names; ``stale_after`` is in report intervals; ``servers`` is the number of DNS servers
    that answer for the pool, each of which knows its own answers only: those of all its processes, see ``hear``.
    ``ramp_up`` is in seconds, 0 for no ramps; ``black_hole``: whether members that serve nothing are set aside.
    """

    def __init__(
        self,
        members: Sequence[str],
        stale_after: float,
        min_usable: float,
        chance: Random,
        servers: int = 1,
        *,
        ramp_up: float = RAMP_UP,
        black_hole: bool = True,
    ) -> None:
        self.members = tuple(members)
        self.stale_after, self.min_usable, self.servers = stale_after, min_usable, servers
        self._chance = chance
        self._observed = [_Observed() for _ in members]
        self._answers: dict[str, WindowRate] = {}
        self._now = -math.inf
        self._own_answers = WindowRate(AVERAGE)  # of this process, all policies
        self._charges = [0.0] * len(self.members)  # hand-outs since each one's report, of all policies
        self._handed = FadingCounts(len(self.members), AVERAGE)  # hand-outs of late, of all policies
        self._fresh: set[int] = set()  # whose report is as new as the present plans: nothing was handed out since
        self._guards = Guards(len(self.members), min_usable, ramp_up, black_hole)
        self._probed: dict[str, int | None] = {}  # by policy: its plan begins with probes, and who came before them
        self.steering: Steering = NO_STEERING
        self._up: frozenset[int] = frozenset()  # forced up ...
        self._blind: frozenset[int] = frozenset()  # ... although reports, if there are any, say otherwise
        self.liveness: Liveness = assess(self.readings, [""] * len(self.members), 0.0, stale_after, min_usable)

    def take_over(self, old: Chooser) -> None:
        """Know what ``old`` knew, of the members that are here too; after a reload."""
        known = dict(zip(old.members, zip(old._observed, old.liveness.states, strict=True), strict=True))
        states = list(self.liveness.states)
        places = {member: place for place, member in enumerate(old.members)}
        for i, member in enumerate(self.members):
            if member in known:
                self._observed[i], states[i] = known[member]
                self._charges[i] = old._charges[places[member]]
        self._handed.take_over(old._handed, [places.get(member) for member in self.members])
        self._answers, self._own_answers = old._answers, old._own_answers
        self._guards.take_over(old._guards, [places.get(member) for member in self.members])
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
            for observed in (self._observed[i] for i in self.liveness.candidates)
            if observed.suspect_at > self._now
        )
        return min(self.liveness.next_change, min(suspects, default=math.inf), self._guards.next_change(self._now))

    def guards(self, now: float) -> tuple[Guard, ...]:
        """What keeps each member from its whole share although it is usable."""
        return self._guards.guards(now, self._ramps(now))

    def observe(self, snapshot: Snapshot, steering: Steering, now: float) -> bool:
        """Take in a snapshot, and what people have ordered. True if anything is new, so that plans are due."""
        news = steering != self.steering
        self.steering = steering
        self._fresh.clear()
        for i, (name, observed) in enumerate(zip(self.members, self._observed, strict=True)):
            reading = snapshot.readings.get(name)
            if reading is not None and reading is not observed.reading:
                observed.observe(reading)
                self._guards.observe(i, reading)
                self._charges[i] = 0.0
                self._fresh.add(i)
                news = True
        due = now >= self.next_change
        forced = [steering.of(name) for name in self.members]
        liveness = assess(self.readings, forced, now, self.stale_after, self.min_usable)
        blind, self._up = self._blind, frozenset(i for i, how in enumerate(forced) if how == "up")
        self._blind = frozenset(i for i in self._up if state_of(self.readings[i], now, self.stale_after) != "usable")
        can_spare = partial(self._can_spare, now=now)
        candidates = self._guards.candidates(liveness, can_spare, self._up, self._needed(liveness, forced, now))
        if candidates != liveness.candidates:
            liveness = replace(liveness, candidates=candidates)
        if not liveness.fail_open:
            if self.liveness.fail_open:
                # With somebody forced up there may be no reading at all
                longest = max((reading.interval for reading in self.readings if reading), default=0.0)
                self._guards.restart(now, longest)
            self._guards.ramp(candidates, now)
        news = news or due or liveness.states != self.liveness.states or blind != self._blind
        self.liveness = liveness
        self._now = now
        return news

    def hear(self, policy: str, count: int, now: float) -> None:
        """Other processes of this server have given ``count`` answers of ``policy`` since the last time."""
        self._answers.setdefault(policy, WindowRate(AVERAGE)).add(now, count)

    @property
    def needs_counts(self) -> bool:
        """Whether ``hear_members`` matters just now."""
        return self._guards.needs_counts

    def hear_members(self, counts: Sequence[int], now: float) -> None:
        """How often each member was handed out since the last time, by whomever; for who plans nothing himself."""
        self._handed.add(counts, now)
        self._guards.hand_out(counts, now, self.servers)

    def plan(self, policy: str, handed: Handed | None, now: float) -> Plan:
        """A new plan of ``policy`` after ``handed`` was given out of its previous one."""
        answers = self._answers.setdefault(policy, WindowRate(AVERAGE))
        answers.add(now, sum(handed.counts) if handed else 0)
        if handed:
            self._charge(handed.counts, now)
            self._guards.hand_out(handed.counts, now, self.servers)
            if policy in self._probed and handed.last not in self.liveness.candidates:
                handed = replace(handed, last=self._probed[policy])  # a rotation goes on as if nobody was probed
        self._probed.pop(policy, None)
        view = self._view(answers, now)
        if self.liveness.fail_open and not self._weighs_all(policy, view):
            return rotation(self.liveness.candidates, handed)
        plan = POLICIES[policy](view, handed, self._chance)
        if probes := self._guards.probes(now):
            self._probed[policy] = handed.last if handed else None
            order, repeat_from = (*probes, *plan.order), plan.repeat_from + len(probes)
            plan = replace(plan, order=order, repeat_from=repeat_from, probes=len(probes))
        return plan

    def _weighs_all(self, policy: str, view: PoolView) -> bool:
        """Whether nobody is usable because all are overloaded, and say how much: then there is something to go by."""
        return (
            policy in WEIGHING
            and view.measured
            and view.answers_allowed <= 0
            and all(self.liveness.states[i] == "alarm" for i in self.liveness.candidates)
        )

    def _charge(self, counts: Sequence[int], now: float) -> None:
        """Hand-outs before the present reports: only whom no new one came from has them before it."""
        self._own_answers.add(now, sum(counts))
        self._handed.add(counts, now)
        multiple = self._multiple(now)
        for i, count in enumerate(counts):
            if count and i not in self._fresh:
                self._charges[i] += count * multiple

    def _multiple(self, now: float) -> float:
        """How many answers of all processes and servers there are for one of this process."""
        own = self._own_answers.count(now)
        every = sum(answers.count(now) for answers in self._answers.values())
        return self.servers * max(1.0, every / own) if own else float(self.servers)

    def shadow(
        self, live: str, policy: str, handed: Handed, chance: Random, now: float, shadow_scores: bool = False
    ) -> Plan:
        """What ``policy`` would do in the place of ``live``, which has just made its plan; nothing changes here. Not
        for a pool that fails open.

        ``handed`` is what was given out of its own previous plan; with ``shadow_scores`` it goes by those.
        """
        view = self.view(live, now)
        if shadow_scores:
            scores = [reading.shadow_score if reading else None for reading in self.readings]
            members = zip(view.members, scores, strict=True)
            anew = (
                m if s is None or m.score == LAST else replace(m, score=self._weighed(i, s))
                for i, (m, s) in enumerate(members)
            )
            view = replace(view, members=tuple(anew))
        return POLICIES[policy](view, handed, chance)

    def view(self, policy: str, now: float) -> PoolView:
        """The pool as ``policy`` sees it."""
        return self._view(self._answers.setdefault(policy, WindowRate(AVERAGE)), now)

    def capacities(self) -> tuple[float, ...]:
        """What each member can carry, in requests/s where ``measured``, else in proportion."""
        return self._capacities(self._metrics())

    def _view(self, answers: WindowRate, now: float) -> PoolView:
        candidates = set(self.liveness.candidates)
        needed = candidates.intersection(self._guards.caught)
        unknown = needed | self._blind
        metrics = self._metrics()
        capacity = self._capacities(metrics)
        # Whom the pool can't do without looks idle: it must not get more than its part of what fails anyway
        told = [NO_METRICS if i in unknown else m for i, m in enumerate(metrics)] if unknown else metrics
        load = loads(told, capacity)
        cores = filled([m.get("cpu_count") for m in metrics])
        suspects, ramps = self._suspects(now), self._ramps(now)
        heard = [o.interval for i, o in enumerate(self._observed) if i in candidates and o.reading]
        interval = sum(heard) / len(heard) if heard else 1.0
        at_work = [o.at_work.value for i, o in enumerate(self._observed) if i in candidates]
        rates = [o.requests_per_s.value for o in self._observed if o.requests_per_s.value is not None]
        return PoolView(
            members=tuple(
                MemberView(
                    usable=i in candidates,
                    suspect=i in suspects,
                    score=LAST if i in unknown else self._weighed(i, observed.reading.score if observed.reading else 0),
                    load=load[i],
                    capacity=capacity[i],
                    cores=cores[i],
                    charge=self._charges[i],
                    left=observed.contention.left,
                    refusing=self.liveness.states[i] == "alarm",
                    ramp=ramps.get(i, 1.0),
                )
                for i, observed in enumerate(self._observed)
            ),
            interval=interval,
            # Members that don't count requests leave the answers as the only measure
            requests_per_s=sum(rates) if rates else math.inf,
            at_work=math.inf if None in at_work else sum(load or 0.0 for load in at_work),
            answers_per_s=answers.rate(now) * self.servers,
            answers_allowed=self._allowed(answers, interval, capacity, now),
            fail_open=bool(self.liveness.fail_open),
            measured=self.measured,
            multiple=self._multiple(now),
            answers_now=answers.rate_now(now, JUST_NOW) * self.servers,
        )

    def _metrics(self) -> list[Mapping[str, float]]:
        return [observed.metrics for observed in self._observed]

    def _capacities(self, metrics: Sequence[Mapping[str, float]]) -> tuple[float, ...]:
        found = self._seen_capacities(metrics)
        if not self.steering.factors:
            return found
        return tuple(c * self.steering.factors.get(name, 1.0) for name, c in zip(self.members, found, strict=True))

    def _seen_capacities(self, metrics: Sequence[Mapping[str, float]]) -> tuple[float, ...]:
        """As reports have it, whatever weights people have given."""
        return capacities([o.work for o in self._observed], [m.get("cpu_count") for m in metrics])

    def _weighed(self, member: int, score: int) -> int:
        """The score by which a member is compared."""
        return int(score * self.steering.factors.get(self.members[member], 1.0))

    @property
    def measured(self) -> bool:
        """Whether capacities are requests/s, as seen."""
        return measured([observed.work for observed in self._observed])

    def _suspects(self, now: float) -> Collection[int]:
        """Whose reports are overdue and who can be spared; whose report is least old is taken back first."""
        observed = self._observed
        late = [i for i in self.liveness.candidates if now >= observed[i].suspect_at and i not in self._up]
        if not late:
            return ()
        late.sort(key=lambda i: -observed[i].suspect_at)
        others = [i for i in self.liveness.candidates if i not in late]
        return self._can_spare(late, others, self.min_usable * len(self.liveness.candidates), now)

    def _needed(self, liveness: Liveness, forced: Sequence[Forced], now: float) -> list[int]:
        """Who gives an alarm, and the others can't do without."""
        refusing = [i for i, state in enumerate(liveness.states) if state == "alarm" and not forced[i]]
        if not refusing or not self.measured or liveness.fail_open:
            return []
        metrics, others = self._metrics(), liveness.candidates
        capacity = self._seen_capacities(metrics)
        horizon = HORIZON * max(self._observed[i].interval for i in refusing)
        expected = self._demand((*refusing, *others), capacity, now)
        return needed(refusing, others, loads(metrics, capacity), capacity, expected, horizon)

    def _can_spare(self, aside: Sequence[int], others: Sequence[int], floor: float, now: float) -> list[int]:
        """Those of ``aside`` (least bad first) that the pool can do without, beside ``others``, and with at least so
        many members left."""
        # A weight says what somebody is to get; what the others can carry it doesn't change
        capacity = self._seen_capacities(self._metrics())
        return spare(aside, others, floor, capacity, self._demand((*aside, *others), capacity, now))

    def _ramps(self, now: float) -> Mapping[int, float]:
        """What part of its share each member gets that is ramped up: as much as the others can't carry, at least."""
        ramps = self._guards.shares(now)
        if not ramps:
            return ramps
        capacity, candidates = self._seen_capacities(self._metrics()), self.liveness.candidates
        return carried_ramps(ramps, candidates, capacity, self._demand(candidates, capacity, now))

    def _demand(self, members: Sequence[int], capacity: Sequence[float], now: float) -> float:
        """The requests/s that come to ``members``, those of a crowd that has just come too; 0 if not known."""
        if not self.measured:
            return 0.0
        failing = [i for i in self._guards.caught if i in self.liveness.candidates]
        serving = [i for i in members if i not in self._guards.caught]
        rates = [o.requests_per_s.value for o in self._observed]
        return max(demand(rates, self._handed.values, capacity, serving, failing), self._crowd(now))

    def _crowd(self, now: float) -> float:
        """The answers/s of a crowd that has just come, each of which brings a request at least; else 0."""
        every = [(answers.rate(now), answers.rate_now(now, JUST_NOW)) for answers in self._answers.values()]
        return self.servers * sum(just_now for usual, just_now in every if just_now > usual)

    def _allowed(self, answers: WindowRate, interval: float, capacity: Sequence[float], now: float) -> int:
        """How many more hand-outs count as few: none when few bring a crowd."""
        few = allowed(answers.count(now), AVERAGE, interval, self.servers)
        if not few or not self.measured:
            return few
        of = self.liveness.candidates
        seen = [self._observed[i] for i in of]
        own = [1 / (o.interval or 1.0) for o in seen]  # an agent asks its own web server once an interval
        usual = [max(0.0, (o.requests_per_s.value or 0.0) - one) for o, one in zip(seen, own, strict=True)]
        newest = [max(0.0, o.metrics.get("requests_per_s", 0.0) - one) for o, one in zip(seen, own, strict=True)]
        # Who keeps an answer for longer than the average reaches back asks less than once in it
        asked = max(answers.rate(now) * self.servers, 1 / AVERAGE)
        handed = [self._handed.values[i] for i in of]
        return 0 if carry_a_crowd(usual, newest, handed, [capacity[i] for i in of], asked, interval) else few

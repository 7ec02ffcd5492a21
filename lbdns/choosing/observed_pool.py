"""The observed pool: tracks each member's load, request rate, capacity and report interval over time. Sans-I/O."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from lbdns.choosing.capacity_estimate import (
    capacities,
    capacities_steps,
    enough_observed,
    forget_changed_steps,
    proven_steps,
)
from lbdns.choosing.contention import Contention
from lbdns.choosing.moving_averages import ExponentialMean
from lbdns.choosing.observed_columns import MemberObservations, ObservedColumns, has_none
from lbdns.choosing.reported_values import counted_cores, load_of, plausible
from lbdns.choosing.request_cost import RequestCost
from lbdns.config.pool_section import MAX_SPEED_GAIN
from lbdns.model.overrides import NO_POOL_OVERRIDES, PoolOverrides
from lbdns.model.snapshot import NO_METRICS, Reading, ReadingChanges, Snapshot, changed_since
from lbdns.native_extension import AVAILABLE, provides
from lbdns.policies.steps import STEP, Steps, finish, parts

if AVAILABLE:
    import lbdns_native

NATIVE: Final = provides("ObservedMember")
NATIVE_SCAN: Final = provides("new_readings")
NATIVE_BATCH: Final = provides("observe_members")
NATIVE_RATES: Final = provides("limited_rates")
AVERAGE: Final = 10.0  # s: the time constant of the averages
REQUESTS: Final = 4.0  # s: the time constant of request rates: shorter, because reports arrive late anyway
BUSY_WORKERS_VALID: Final = 10.0  # s: a server that is late with its status page, under load, is as busy as before
RATE_MARGIN: Final = 1.5  # times its capacity: a member serves no more requests/s, but its capacity is an estimate
SEEK_CHANGES: Final = 1.0  # s between searches for members whose requests have changed their cost
AT_ONCE: Final = 20  # readings recorded in a step: half a millisecond of work, even without the native extension
CONTENTION_AT_ONCE: Final = 100  # members in a step that updates what other programs leave to them
OVERDUE_AFTER: Final = 2.0  # observed intervals without a report


class ObservedMember:
    """The observations of one member over time. The caller must pass each new reading to ``observe`` once, in order."""

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.metrics: Mapping[str, float] = NO_METRICS  # the plausible metrics of the newest reading
        self.request_cost = RequestCost()
        self.contention = Contention()
        self.requests_per_s = ExponentialMean(REQUESTS)
        self.between_reports = ExponentialMean(AVERAGE)
        self.in_progress = ExponentialMean(AVERAGE)
        self.load: float | None = None  # requests or runnable tasks in the newest reading
        self._busy_workers, self._busy_workers_at = 0.0, -math.inf  # the last value reported, and when
        self.interval = 0.0  # s between reports: as declared, or as observed if that is longer
        self.overdue_at = math.inf  # monotonic seconds: when the next report is overdue

    def observe(self, reading: Reading) -> None:
        """Record a new reading. The caller must not pass the same reading twice."""
        before, self.reading = self.reading, reading
        seconds = reading.received - before.received if before else 0.0
        if before and seconds > 0:
            self.between_reports.add(min(seconds, 10 * reading.interval), seconds)
        if before is None or reading.metrics is not before.metrics:
            self.metrics = metrics = self._with_busy_workers(plausible(reading.metrics), reading.received)
            self.request_cost.observe(metrics, seconds, status_requests=max(1, round(seconds / reading.interval)))
            self.contention.observe(metrics, seconds)
            if "requests_per_s" in metrics:
                self.requests_per_s.add(metrics["requests_per_s"], seconds or reading.interval)
            self.load = load_of(metrics)
            if self.load is not None:
                self.in_progress.add(self.load, seconds or reading.interval)
        self.interval = max(reading.interval, self.between_reports.value or 0.0)
        self.overdue_at = reading.received + OVERDUE_AFTER * self.interval

    def averages(self) -> tuple[float | None, float | None, float | None, float | None]:
        """Return the load, the number of cores, the requests/s and the requests in progress; None if unknown."""
        return self.load, self.metrics.get("cpu_count"), self.requests_per_s.value, self.in_progress.value

    def available_share(self, cores: float) -> float:
        """Return the share of its capacity that other programs on its host leave to it (see ``Contention``)."""
        return self.contention.available_share(cores)

    def other_tasks(self, cores: float) -> float:
        """Return the number of other programs' runnable tasks on its host (see ``Contention``)."""
        return self.contention.other_tasks(cores)

    def standstill(self, cores: float) -> float:
        """Return for how many seconds a request waits because its host stands still (see ``Contention``)."""
        return self.contention.standstill(cores)

    def _with_busy_workers(self, metrics: Mapping[str, float], now: float) -> Mapping[str, float]:
        """Return ``metrics``. If only ``busy_workers`` is missing, add its last known value, provided it is still
        valid.

        Without ``busy_workers``, a server too busy to serve its status page would be judged by its run queue alone. The
        server would seem idle and get more clients.
        """
        if "busy_workers" in metrics:
            self._busy_workers, self._busy_workers_at = metrics["busy_workers"], now
        elif "run_queue" in metrics and now - self._busy_workers_at <= BUSY_WORKERS_VALID:
            return {**metrics, "busy_workers": self._busy_workers}
        return metrics


class ObservedPool:
    """The observations of a pool's members, in the pool's order. ``names`` lists full names."""

    def __init__(
        self,
        names: Sequence[str],
        max_cores: float = 0.0,
        pool: str = "",
        weights: Mapping[str, float] = NO_METRICS,
        max_speed_gain: float = MAX_SPEED_GAIN,
        native: bool = False,
    ) -> None:
        """``max_cores`` is the maximum number of cores that count for a member; 0 means a few times the pool's median.

        ``pool`` is the pool's name. ``weights`` contains the configured factors by which members' capacities are
        multiplied. A member that reports the fastest cores gains capacity; ``max_speed_gain`` limits this gain (see
        ``capacities``). If ``native`` is true, the native extension observes the members, if it can.
        """
        self.names, self._max_cores, self.pool = tuple(names), max_cores, pool
        self._weights, self.max_speed_gain = weights, max_speed_gain
        self._changes_sought = -math.inf  # when the members were last searched for changes
        self.members: list[MemberObservations]
        if native and NATIVE:
            self.members = [lbdns_native.ObservedMember(plausible, NO_METRICS) for _ in names]
        else:
            self.members = [ObservedMember() for _ in names]
        self.overrides: PoolOverrides = NO_POOL_OVERRIDES
        self._use_members()

    def _use_members(self) -> None:
        self.columns = ObservedColumns(self.members)
        self._costs = [member.request_cost for member in self.members]
        self._observes_batches = NATIVE_BATCH and all(isinstance(m, lbdns_native.ObservedMember) for m in self.members)
        self._cores: list[float] | None = None
        self._shares = [1.0] * len(self.members)  # see ``available_shares``
        self._other_tasks: dict[int, float] = {}
        self._standstills: dict[int, float] = {}
        self._shares_outdated: set[int] = set()
        self._waiting: list[tuple[int, Reading]] = []  # new readings in ``_scanned``, the last one first
        self._scanned: Snapshot | None = None
        self._compared: ReadingChanges | None = None  # the changes of the newest snapshot that was observed
        self._scanned_to = 0  # members whose readings in ``_scanned`` have been compared
        self._fresh: set[int] = set()  # members with a new reading since the last call of ``observe``
        self._newest = -math.inf  # when the newest reading arrived, in monotonic seconds
        self._forget_estimates()

    def _forget_estimates(self) -> None:
        """Discard the estimates over all members. Each is computed at most once between two observations."""
        self._measured: bool | None = None
        self._capacities: tuple[float, ...] | None = None
        self._interval: float | None = None

    def take_over(self, old: ObservedPool, places: Sequence[int | None]) -> None:
        """Continue from the observations in ``old``.

        ``places`` lists each member's index in ``old``, or None for a new member.
        """
        self.members = [
            mine if place is None else old.members[place] for mine, place in zip(self.members, places, strict=True)
        ]
        self._use_members()
        self._fresh = {i for i, place in enumerate(places) if place in old._fresh}

    def observe(self, snapshot: Snapshot) -> list[int]:
        """Record the readings in ``snapshot``; return the indexes of members with a new reading since the last call."""
        return finish(self.observe_steps(snapshot))

    def observe_steps(self, snapshot: Snapshot) -> Steps[list[int]]:
        """Do the same as ``observe``, in steps. The caller must not observe another snapshot in between."""
        while self.observe_some(snapshot, AT_ONCE):
            yield
        self._scanned, self._compared = None, snapshot.changes
        fresh, self._fresh = sorted(self._fresh), set()
        if self._newest >= self._changes_sought + SEEK_CHANGES:
            self._changes_sought = self._newest
            changed = yield from forget_changed_steps(self._costs)
            for i in changed:
                self.columns.work.update(i, self._costs[i])
            if changed:  # a caller may have read an estimate after the newest reading was recorded
                self._forget_estimates()
        return fresh

    def estimate_steps(self) -> Steps[None]:
        """Compute the estimates over all members that plans need and that are not known yet.

        Otherwise, each estimate is computed when it is first read, in one step.
        """
        if self._capacities is None:
            cores = self.cores
            yield
            self._capacities = yield from capacities_steps(self.columns.work, cores, self.max_speed_gain)
        if self._interval is None:
            self._interval = self.interval
            yield
        outdated = list(self._shares_outdated)
        for part in parts(len(outdated), CONTENTION_AT_ONCE):
            self._update_contention(outdated[part])
            yield

    def observe_some(self, snapshot: Snapshot, most: int) -> bool:
        """Record up to ``most`` new readings in ``snapshot``. Return whether it contains more.

        The next call of ``observe`` returns the members of these readings too. The caller can thereby spread the work
        of recording the readings of a large pool over time.
        """
        columns, members, waiting = self.columns, self.members, self._waiting
        if self._scanned is not snapshot:
            waiting.clear()
            self._scanned, self._scanned_to = snapshot, 0
        if not waiting and self._scanned_to < len(self.names):
            waiting[:] = self._scan(snapshot)
        if waiting:
            self._forget_estimates()
        batch = waiting[: -most - 1 : -1]
        if self._observes_batches:
            if lbdns_native.observe_members(members, columns.by_report, columns.work.columns, batch):
                self._cores = None
        else:
            self._observe_each(batch)
        del waiting[len(waiting) - len(batch) :]
        self._newest = max([self._newest, *(reading.received for _, reading in batch)])
        recorded = [i for i, _ in batch]
        self._shares_outdated.update(recorded)
        self._fresh.update(recorded)
        return bool(waiting) or self._scanned_to < len(self.names)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def _observe_each(self, readings: Sequence[tuple[int, Reading]]) -> None:
        columns, members = self.columns, self.members
        for i, reading in readings:
            cores = columns.cores[i]
            members[i].observe(reading)
            columns.update(i, members[i])
            if columns.cores[i] != cores:
                self._cores = None

    def _scan(self, snapshot: Snapshot) -> list[tuple[int, Reading]]:
        """Return new readings in the next part of ``snapshot``, the last one first."""
        begin, names, old = self._scanned_to, self.names, self.columns.readings
        changed = changed_since(self._compared, snapshot) if begin == 0 else None
        if changed is not None:
            self._scanned_to = len(names)
            places, readings = self._places, snapshot.readings
            known = sorted(places[name] for name in changed if name in places and name in readings)
            return [(i, new) for i in reversed(known) if (new := readings[names[i]]) is not old[i]]
        if NATIVE_SCAN and isinstance(snapshot.readings, dict):
            self._scanned_to = len(names)
            found = lbdns_native.new_readings(names, snapshot.readings, old)
        else:
            part = slice(begin, begin + STEP)
            self._scanned_to = min(len(names), part.stop)
            changes = enumerate(zip(map(snapshot.readings.get, names[part]), old[part], strict=True), begin)
            found = [(i, new) for i, (new, was) in changes if new is not was and new is not None]
        found.reverse()
        return found

    @property
    def readings(self) -> Sequence[Reading | None]:
        """Return the newest reading of each member."""
        return self.columns.readings

    @property
    def reported(self) -> Sequence[float]:
        """Return when each member's newest reading arrived, in monotonic seconds (-inf if there is none)."""
        return self.columns.received

    @property
    def interval(self) -> float:
        """Return the median of the intervals between members' reports, in seconds; 1 if no member has an agent.

        No single member changes the median much. Members that are currently silent also count: otherwise, only two
        members might count, and either of them could change the result.
        """
        if self._interval is None:
            columns = self.columns
            intervals = columns.intervals
            if has_none(columns.readings) or has_none(columns.scores):
                intervals = [m.interval for m in self.members if m.reading and m.reading.score is not None]
            median = lbdns_native.median if NATIVE else statistics.median
            self._interval = median(intervals) if intervals else 1.0
        return self._interval

    @property
    def metrics(self) -> Sequence[Mapping[str, float]]:
        """Return the plausible metrics of each member's newest reading."""
        return self.columns.metrics

    @property
    def measured(self) -> bool:
        """Return whether enough requests were observed to state capacities in requests/s. If not, only the capacities'
        ratios are meaningful."""
        if self._measured is None:
            self._measured = enough_observed(self.columns.work)
        return self._measured

    def observed_capacities(self) -> tuple[float, ...]:
        """Return each member's capacity as observed from its reports, before any operator weights are applied."""
        if self._capacities is None:
            self._capacities = capacities(self.columns.work, self.cores, self.max_speed_gain)
        return self._capacities

    def proven_steps(self, capacity: Sequence[float]) -> Steps[tuple[float, ...]]:
        """Return ``capacity`` with the fastest member's speed limited to that of the next (see
        ``proven_capacities``), in steps."""
        return proven_steps(capacity, self.cores, self.columns.work.counted)

    @property
    def cores(self) -> Sequence[float]:
        """Return the number of cores counted for each member."""
        if self._cores is None:
            self._cores = counted_cores(self.columns.cores, self._max_cores)
            self._shares_outdated.update(range(len(self._cores)))
        return self._cores

    def available_shares(self) -> Sequence[float]:
        """Return the share of each member's capacity that other programs on its host leave to it (above 0)."""
        self._update_contention()
        return self._shares

    def other_tasks(self) -> Mapping[int, float]:
        """Return the number of other programs' runnable tasks on the hosts of the members that have any."""
        self._update_contention()
        return self._other_tasks

    def standstills(self) -> Mapping[int, float]:
        """Return for how many seconds a request waits at the members whose hosts stand still part of the time."""
        self._update_contention()
        return self._standstills

    def _update_contention(self, outdated: Sequence[int] | None = None) -> None:
        """Update the values of the members in ``outdated``, or of all whose values are outdated."""
        cores, members = self.cores, self.members
        for i in tuple(self._shares_outdated) if outdated is None else outdated:
            member = members[i]
            self._shares[i] = member.available_share(cores[i])
            for values, value in (
                (self._other_tasks, member.other_tasks(cores[i])),
                (self._standstills, member.standstill(cores[i])),
            ):
                if value:
                    values[i] = value
                else:
                    values.pop(i, None)
            self._shares_outdated.discard(i)

    def request_rates(self, capacity: Sequence[float], margin: float = RATE_MARGIN) -> list[float | None]:
        """Return each member's average requests/s, at most ``margin`` times its ``capacity``; None if unknown."""
        return finish(self.rate_steps(capacity, margin))

    def rate_steps(self, capacity: Sequence[float], margin: float = RATE_MARGIN) -> Steps[list[float | None]]:
        """Return the same rates as ``request_rates``, in steps."""
        rates = self.columns.requests_per_s
        if not self.measured:
            return list(rates)
        if NATIVE_RATES:
            return lbdns_native.limited_rates(rates, capacity, margin)
        limited: list[float | None] = []
        for part in parts(len(rates), 2 * STEP):
            limited += [
                rate if rate is None or rate <= (most := margin * c) else most
                for rate, c in zip(rates[part], capacity[part], strict=True)
            ]
            yield
        return limited

    def factor(self, name: str) -> float:
        """Return the factor for a member's capacity and score: the configured weight times an operator's weight."""
        return self._weights.get(name, 1.0) * self.overrides.factors.get(name, 1.0)

    def weighted(self, capacities: tuple[float, ...]) -> tuple[float, ...]:
        """Return ``capacities``, each multiplied by the member's factor."""
        if not self.overrides.factors and not self._weights:
            return capacities
        return tuple(c * self.factor(name) for name, c in zip(self.names, capacities, strict=True))

    def weighted_scores(self, scores: Sequence[int]) -> Sequence[int]:
        """Return the members' ``scores``, each multiplied by the member's factor and truncated to an integer."""
        if not self.overrides.factors and not self._weights:
            return scores
        return [self.weighted_score(i, score) for i, score in enumerate(scores)]

    def weighted_score(self, member: int, score: int) -> int:
        """Return ``score`` multiplied by the factor of ``member`` and truncated to an integer."""
        return int(score * self.factor(self.names[member]))

"""The scaler's loop: observes the servers continuously. Once per period, it measures the demand and decides."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from lbdns.text.counts import counted
from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.demand.demand_source import DemandReading, DemandSource, ServerLoad
from lbdns_tools.scaler.life_cycle.fleet import Fleet
from lbdns_tools.scaler.life_cycle.scaling_limits import ScalingLimits
from lbdns_tools.scaler.life_cycle.scaling_plan import Change, FleetLimits, scaling_plan
from lbdns_tools.scaler.life_cycle.server_record import ServerFacts, ServerRecord
from lbdns_tools.scaler.life_cycle.server_state import ON_THE_WAY, ServerState
from lbdns_tools.scaler.policies.scaling_policy import (
    Demand,
    FarmView,
    Recommendation,
    ScalingPolicy,
    ScalingRound,
    ServerView,
)
from lbdns_tools.scaler.providers.provider import MachineStatus
from lbdns_tools.scaler.running.capacity_of_server import ServerCapacity
from lbdns_tools.scaler.running.rounds_csv import RoundRow, RoundsFile
from lbdns_tools.scaler.settings.scaler_sections import ScalerSection
from lbdns_tools.scaler.trouble import log_trouble

log = logging.getLogger("lbdns.scaler")

REPORT_AGE: Final = 2.0  # seconds: the age of a report, at most, when it is read
LEAST_HISTORY: Final = 3600.0  # seconds of past rounds that the status shows
MAX_ROUNDS: Final = 200_000  # kept in memory: 14 days at 6 s
MOST_PER_MAXIMUM: Final = 2  # servers that may exist for each permitted one: a provider may refuse to delete servers
NO_LOAD: Final = ServerLoad()
S = ServerState


@dataclass(frozen=True, slots=True)
class Decision:
    """What the last round measured and decided."""

    view: FarmView
    recommended: int  # by the policy
    limited: Recommendation  # what the farm's limits leave of it
    changes: Sequence[Change] = ()
    reading: DemandReading = field(default_factory=lambda: DemandReading(0.0))


class ScalerLoop:
    """Runs one farm. With ``dry_run``, decisions are logged and nothing is changed."""

    def __init__(
        self,
        settings: ScalerSection,
        policy: ScalingPolicy,
        fleet: Fleet,
        demand: DemandSource,
        rounds_file: RoundsFile | None,
        dry_run: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings, self.policy, self.fleet, self.dry_run = settings, policy, fleet, dry_run
        self._demand, self._file, self._clock = demand, rounds_file, clock
        self._capacity = ServerCapacity(settings.capacity)
        self._limits = ScalingLimits(settings.cool_down, settings.delay_in)
        self._history = max(policy.history, self._limits.history, LEAST_HISTORY)
        self.started = clock()
        self.requests = 0.0  # since the start
        self.decision: Decision | None = None
        self.on_decision: Callable[[], object] = lambda: None  # called after each decision
        self.rounds: deque[ScalingRound] = deque(maxlen=MAX_ROUNDS)
        self.trouble = ""  # why the last round decided nothing; empty if it decided
        if rounds_file:
            past = rounds_file.rounds(self.started - self._history)
            self.rounds.extend(each for each in past if each.demand.time < self.started)

    async def run(self, stop: asyncio.Event) -> None:
        """Observe and decide until ``stop`` is set. The servers then stay as they are."""
        next_round = time.monotonic() + min(self.settings.period, 2.0)  # the first rate needs two readings
        await self.measure()
        while not stop.is_set():
            began = time.monotonic()
            await self._guarded(self.fleet.look)
            if time.monotonic() >= next_round:
                next_round = max(next_round + self.settings.period, time.monotonic())
                await self._guarded(self.decide)
            pause = max(0.0, began + self.settings.look - time.monotonic())
            try:
                await asyncio.wait_for(stop.wait(), pause)
            except TimeoutError:
                continue

    async def _guarded(self, step: Callable[[], object]) -> None:
        """Perform a step. If it raises an error, log the error and continue."""
        try:
            await step()  # type: ignore[misc]
        except LbdnsError as error:
            log.error("%s", error)
        except Exception:
            log.exception("unexpected error; the scaler continues")

    async def decide(self) -> Decision | None:
        """Measure demand, ask the policy, and apply the changes. Return None if the demand is not known."""
        if self.fleet.unobserved:
            return None  # the servers cannot be observed, which is logged
        reading = await self.measure()
        if reading is None:
            return None
        view = self.view(reading)
        decision, before = self._decided(view, reading), self.decision
        self.decision = decision
        if self.dry_run:
            _log_dry(decision, before)
        self._record(decision)
        if not self.dry_run:
            self.fleet.apply(decision.changes)
        self.on_decision()
        return decision

    async def measure(self) -> DemandReading | None:
        """Return the demand since the previous call. If it is not known, return None, and set ``trouble`` to the
        reason."""
        try:
            reading = await self._demand.read(time.monotonic())
        except Exception as error:
            what = "cannot measure the demand, so no server is added or removed"
            self.trouble = log_trouble(what, error, self.trouble)
            return None
        self.trouble = ""
        return reading

    def view(self, reading: DemandReading) -> FarmView:
        """Return the policy's view of the farm. Servers that an operator keeps out of service are left out."""
        now, fleet, settings = self._clock(), self.fleet, self.settings
        while self.rounds and self.rounds[-1].demand.time >= now:  # the clock was set back
            self.rounds.pop()
        present = [record for name, record in fleet.records.items() if name not in fleet.held]
        warm = {r.name for r in present if r.state is S.IN_SERVICE and now - r.since >= settings.warm_up}
        used = [
            load.cpu_percent for name, load in reading.servers.items() if name in warm and load.cpu_percent is not None
        ]
        new = self._new(now) if reading.includes_benchmarks else ()
        rate = reading.requests_per_s - sum(reading.servers.get(name, NO_LOAD).requests_per_s or 0.0 for name in new)
        return FarmView(
            now=now,
            demand=Demand(now, max(0.0, rate), fmean(used) if used else None),
            servers=tuple(_server_view(record, fleet.facts_of(record.name)) for record in present),
            capacity=self._capacity.estimate(reading.servers, present, rate),
            minimum=settings.minimum,
            maximum=settings.maximum,
            rounds=self.rounds,
        )

    def _new(self, now: float) -> frozenset[str]:
        """Return the new servers. Their requests since the last round may include those of a benchmark."""
        recent = self.settings.period + REPORT_AGE
        records = self.fleet.records.values()
        return frozenset(
            r.name for r in records if r.state in ON_THE_WAY or (r.state is S.IN_SERVICE and now - r.since < recent)
        )

    def _decided(self, view: FarmView, reading: DemandReading) -> Decision:
        recommended = self.policy.recommend(view)
        limited = self._limits.apply(recommended, view, self.fleet.quota)
        spares, quota = self.settings.spares, self.fleet.quota
        most = MOST_PER_MAXIMUM * self.settings.maximum + spares
        limits = FleetLimits(spares, most if quota is None else min(quota, most))
        records, prefix = list(self.fleet.records.values()), f"{self.settings.farm}-"
        changes = scaling_plan(
            records, limited.servers, view.now, limited.reason, limits, prefix, self.fleet.highest, limited.remove,
            self.fleet.held,
        )  # fmt: skip
        return Decision(view, recommended.servers, limited, changes, reading)

    def _record(self, decision: Decision) -> None:
        view, limited = decision.view, decision.limited
        period = view.now - (self.rounds[-1].demand.time if self.rounds else self.started)
        self.requests += view.demand.requests_per_s * max(0.0, min(period, 10 * self.settings.period))
        self.rounds.append(ScalingRound(view.demand, view.in_service, decision.recommended, limited.servers))
        while self.rounds[0].demand.time < view.now - self._history:
            self.rounds.popleft()
        if self._file is None:
            return
        facts = self.fleet.facts.values()
        row = RoundRow(
            view.demand, period, view.now - self.started, self.requests, view.capacity,
            sum(f.machine is not None and f.machine.status is MachineStatus.RUNNING for f in facts), view.in_service,
            view.count(*ON_THE_WAY), view.count(S.DRAINING), view.count(S.STOPPED), view.count(S.FAILED),
            decision.recommended, limited.servers, limited.reason,
        )  # fmt: skip
        try:
            self._file.append(row)
        except OSError as error:  # a full disk must not stop scaling
            log.error("cannot write the CSV file: %s", error.strerror)


def _log_dry(decision: Decision, before: Decision | None) -> None:
    """Log the decision of a dry run: the number of servers if it has changed, and each change that would be made."""
    wanted = decision.limited
    if before is None or before.limited.servers != wanted.servers:
        log.info("dry run: %s wanted. %s", counted(wanted.servers, "server"), wanted.reason)
    for change in decision.changes:
        log.info("dry run: %s", change)


def _server_view(record: ServerRecord, facts: ServerFacts) -> ServerView:
    billed_since = facts.machine.created if facts.machine else 0.0
    return ServerView(record.name, record.state, record.since, billed_since)

"""The status source of ``lbdns serve``: lets pages, metrics and the history read the server's state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lbdns.answering.plane import why_not_native
from lbdns.config.server_section import PlaneName
from lbdns.counting.answer_counters import NO_ANSWERS, NO_COUNTS, AnswerCounters, by_type_and_rcode
from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import CheckedConfiguration, build_score
from lbdns.model.farm import Farm, Pool
from lbdns.model.overrides import Overrides
from lbdns.model.snapshot import Snapshot
from lbdns.planning.explanation import find_owner, full_owner, score_parts, unknown_name
from lbdns.planning.shadow import ShadowConfig, shadows_of
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.duty_cycle import DutyCycle
from lbdns.scores.score import Score
from lbdns.server.dns_service import Answerer
from lbdns.server.xdp.kernel_answering import KernelAnswering
from lbdns_collector.reports.adaptive_weights import WeightSearchStatus
from lbdns_collector.reports.report_table import ReportTable
from lbdns_collector.status.status_document import ShadowStatistics
from lbdns_collector.status.status_source import NOT_SERVING, Steering
from lbdns_collector.web.single_flight import SingleFlight
from lbdns_shared.errors import UnknownNameError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from lbdns.history.live_history import LiveHistory
    from lbdns.server.bus_follower import BusFollower
    from lbdns.server.collector_follower import CollectorFollower
    from lbdns_collector.reports.collector import Collector
    from lbdns_collector.snapshots.snapshot_sender import SnapshotSender
    from lbdns_collector.status.history_sampler import HistorySampler

#: Counting queries by type takes long when there are many names
COUNTING: Final = DutyCycle(50.0, shortest=0.5)
#: An explanation of a pool of 1000 members takes 30 ms
EXPLAINING: Final = DutyCycle(30.0, longest=1.0)
_NO_COUNTS: Final[tuple[Mapping[str, int], Mapping[str, int]]] = ({}, {})


class ServerMembers:
    """Implements ``MemberSource`` for ``lbdns serve``."""

    def __init__(self, farm: Farm, answerer: Answerer) -> None:
        self.farm = farm
        self.subscribe = answerer.planner.subscribe
        #: Returns the state of the overrides that servers share; set by the server
        self.sharing: Callable[[], Mapping[str, Any] | None] = lambda: None
        #: Returns the state of the answers that servers share; set by the server
        self.answer_sharing: Callable[[], Mapping[str, Any] | None] = lambda: None
        self._answerer = answerer

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        """Return a change that replaces the farm with the farm in ``new``.

        This change must commit before the answerer's change, because the answerer's subscribers read the farm from this
        object.
        """

        def commit() -> None:
            self.farm = new.farm

        return PreparedChange("status", commit=commit)

    @property
    def snapshot(self) -> Snapshot:
        return self._answerer.planner.snapshot

    @property
    def overrides(self) -> Overrides:
        return self._answerer.planner.overrides

    @property
    def shared_overrides(self) -> Mapping[str, Any] | None:
        return self.sharing()

    @property
    def shared_answers(self) -> Mapping[str, Any] | None:
        return self.answer_sharing()


class ServerScoring:
    """Implements ScoreSource for ``lbdns serve``. The server sets ``collector`` if it has a built-in collector."""

    def __init__(self, members: ServerMembers) -> None:
        self.collector: Collector | None = None
        self._members = members
        self._score, self._scored_farm = build_score(members.farm.config), members.farm

    @property
    def score(self) -> Score:
        if self.collector:
            return self.collector.score
        farm = self._members.farm
        if self._scored_farm is not farm:
            self._score, self._scored_farm = build_score(farm.config), farm
        return self._score

    @property
    def adapted(self) -> WeightSearchStatus | None:
        return self.collector.adapted if self.collector else None


class ServerCounters:
    """Implements CounterSource for ``lbdns serve``. The server sets ``follower`` if it follows another collector."""

    def __init__(self, members: ServerMembers, scoring: ServerScoring, answerer: Answerer) -> None:
        self.follower: CollectorFollower | BusFollower | None = None
        self.sender: SnapshotSender | None = None  # set by a server with a built-in collector
        self._members, self._scoring, self._answerer = members, scoring, answerer
        self.refresh = answerer.refresh
        self._asked = (0.0, _NO_COUNTS)  # until when (monotonic seconds) these counts are fresh enough
        self.inherit(NO_COUNTS)

    def inherit(self, counters: AnswerCounters) -> None:
        """Add the counters of the server that this server replaces."""
        self.inherited = counters.ended()
        self.inherited_answers = self.inherited.by_pool()

    def total(self) -> AnswerCounters:
        """Return the sums of the answerer's counters, this server's own counters and the inherited counters."""
        planner, farm = self._answerer.planner, self._members.farm
        own = {"fail_opens": planner.fail_opens, "worker_restarts": self._answerer.restarts}
        open_ms = {pool.name: round(1000 * planner.fail_open_seconds(pool.name)) for pool in farm.pools}
        return self._answerer.counters() + AnswerCounters(named=own, fail_open_ms=open_ms) + self.inherited

    @property
    def queries(self) -> int:
        return self._answerer.queries + self.inherited.queries

    @property
    def report_counts(self) -> Mapping[str, int]:
        return self._scoring.collector.counts if self._scoring.collector else {}

    @property
    def report_table(self) -> ReportTable | None:
        return self._scoring.collector.table if self._scoring.collector else None

    def type_and_rcode_counts(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        began = time.monotonic()
        until, found = self._asked
        if began >= until:
            found = by_type_and_rcode(self._answerer.asked(), self.inherited.asked)
            now = time.monotonic()
            self._asked = (now + COUNTING.pause_after(now - began), found)
        return found

    def metric_families(self) -> Iterable[Metric]:
        # Imported here so that the server answers queries before it loads the metrics library
        from lbdns.server.server_families import (
            answer_sharing_families,
            dns_families,
            follower_families,
            server_families,
            sharing_families,
            site_families,
        )
        from lbdns_collector.prometheus.status_families import collector_families, snapshot_families

        counters, farm = self.total(), self._members.farm
        yield from dns_families(farm, counters)
        yield from server_families(
            farm, counters, self._answerer.planner.failing_open, self._answerer.planner.backup_shares
        )
        yield from site_families(farm, counters, self._answerer.planner.sites)
        if self._scoring.collector:
            yield from collector_families(self._scoring.collector)
            if self.sender and self._scoring.collector.table.bus:
                yield from snapshot_families(self.sender.counts)
        if shared := self._members.shared_overrides:
            yield from sharing_families(shared)
        if answers := self._members.shared_answers:
            yield from answer_sharing_families(answers)
        if self.follower:
            yield from follower_families(self.follower.connected)
            yield from self.follower.metric_families()


class ServerSelection:
    """Implements SelectionSource for ``lbdns serve``."""

    def __init__(
        self, members: ServerMembers, scoring: ServerScoring, counters: ServerCounters, answerer: Answerer
    ) -> None:
        self._members, self._scoring, self._counters, self._answerer = members, scoring, counters, answerer
        self._explanations: dict[str, SingleFlight[Mapping[str, Any]]] = {}  # by full name
        self._explaining = asyncio.Lock()
        self._explains_at = 0.0  # monotonic seconds
        self.capacities, self.guards = answerer.planner.capacities, answerer.planner.guards
        self.upcoming, self.backup = answerer.upcoming, answerer.planner.backup
        self.sites = answerer.planner.sites

    def answers(self, pool: str) -> Sequence[int]:
        members = next(p.members for p in self._members.farm.pools if p.name == pool)
        before, now = self._counters.inherited_answers.get(pool, NO_ANSWERS), self._answerer.answers(pool)
        return [now[member.full_name] + before[member.full_name] for member in members]

    def shadows(self) -> Mapping[str, Sequence[ShadowStatistics]]:
        farm = self._members.farm
        tried = [(pool, shadows_of(pool.config, farm.config.collector)) for pool in farm.pools]
        now = self._answerer.shadow_counters() if any(configs for _, configs in tried) else NO_COUNTS
        return {pool.name: [self._shadow(pool, config, now) for config in configs] for pool, configs in tried}

    def _shadow(self, pool: Pool, config: ShadowConfig, now: AnswerCounters) -> ShadowStatistics:
        key = pool.name, config.live, config.name
        both = now, self._counters.inherited
        return ShadowStatistics(
            config.live,
            config.policy,
            config.score,
            [sum(each.shadow_answers.get((*key, member.full_name), 0) for each in both) for member in pool.members],
            sum(each.diverted.get(key, 0) for each in both),
        )

    async def explain(self, name: str) -> Mapping[str, Any]:
        farm = self._members.farm
        owner = find_owner(farm, name)
        if owner is None:
            raise UnknownNameError(unknown_name(farm, name))
        # Clients share explanations, so even many requests for explanations delay queries only a little
        full = full_owner(*owner)
        if full not in self._explanations:
            self._explanations[full] = SingleFlight(partial(self._explain_in_turn, full))
        return await self._explanations[full].get()

    async def _explain_in_turn(self, name: str) -> Mapping[str, Any]:
        async with self._explaining:
            await asyncio.sleep(max(0.0, self._explains_at - time.monotonic()))
            began = time.monotonic()
            try:
                return await self._explain(name)
            finally:
                now = time.monotonic()
                self._explains_at = now + EXPLAINING.pause_after(now - began)

    async def _explain(self, name: str) -> Mapping[str, Any]:
        farm = self._members.farm
        owner = find_owner(farm, name)
        if owner is None:
            raise UnknownNameError(unknown_name(farm, name))
        found = dict(await self._answerer.explain(*owner))
        # A worker knows the configured score, but not the weights that the weight search uses now
        readings = self._members.snapshot.readings
        full_names = {each.name: each.full_name for each in owner[0].members}
        for member in found["members"]:
            reading = readings.get(full_names.get(member["name"], ""))
            if reading and reading.score == member["score"]:
                member["score_parts"] = score_parts(reading, self._scoring.score.parts)
        return {**found, "score_name": farm.config.collector.score, "time": round(time.time(), 3)}


class ServerProgram:
    """Implements ProgramSource for ``lbdns serve``. The server sets the attributes ``recording`` and ``serving``."""

    def __init__(
        self, plane: PlaneName, answerer: Answerer, events: EventLog, kernel: KernelAnswering | None = None
    ) -> None:
        self.events = events
        self._kernel = kernel
        self.plane_reason = why_not_native(plane)
        self.plane = "python" if self.plane_reason else "native"
        self.recording: HistorySampler | None = None
        self.serving = False
        self.workers = answerer.workers
        self._answerer = answerer
        self._started = time.monotonic()

    @property
    def history(self) -> LiveHistory | None:
        return self.recording.history if self.recording else None

    @property
    def kernel(self) -> Mapping[str, Any] | None:
        return self._kernel.document if self._kernel else None

    @property
    def fault(self) -> str:
        return self._answerer.fault if self.serving else NOT_SERVING

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started


class ServerStatus:
    """Implements StatusSource for ``lbdns serve``."""

    def __init__(self, farm: Farm, answerer: Answerer, events: EventLog, kernel: KernelAnswering | None = None) -> None:
        """``kernel`` is what answers in the kernel, if anything may do so."""
        self.members = ServerMembers(farm, answerer)
        self.scoring = ServerScoring(self.members)
        self.counters = ServerCounters(self.members, self.scoring, answerer)
        self.selection = ServerSelection(self.members, self.scoring, self.counters, answerer)
        self.program = ServerProgram(farm.config.server.plane, answerer, events, kernel)
        self.steering: Steering | None = None  # set by the server

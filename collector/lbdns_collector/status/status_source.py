"""Status sources: protocols through which the web pages, metrics, history and stat file access a program's state."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from lbdns import __version__
from lbdns.choosing.guard_rails.guard_rails import Guard
from lbdns.choosing.spillover import BackupUse
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm, Pool
from lbdns.model.overrides import Overrides
from lbdns.model.snapshot import Snapshot
from lbdns.planning.site_plans import SitePlans
from lbdns.scores.score import Score
from lbdns_collector.reports.adaptive_weights import WeightSearchStatus
from lbdns_collector.reports.report_table import ReportTable
from lbdns_collector.status.status_document import ProgramStatus, RejectedStatus, ShadowStatistics, StatusInputs

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from lbdns.history.live_history import LiveHistory


#: Carries out an override command, given its fields and the name of the user, and returns the reply. Raises LbdnsError
Steering = Callable[[Mapping[str, Any], str], Awaitable[Mapping[str, Any]]]

NOT_SERVING: Final = "not serving: starting or stopping"  # the fault of a program whose sockets are not open


class MemberSource(Protocol):
    """A source of data about members: configuration, reports and operators' overrides."""

    @property
    def farm(self) -> Farm: ...  # the configuration in force; a reload replaces the object

    @property
    def snapshot(self) -> Snapshot: ...  # the newest snapshot

    @property
    def overrides(self) -> Overrides: ...  # the overrides in force

    @property
    def shared_overrides(self) -> Mapping[str, Any] | None:
        """Return the state of the overrides that servers share, as plain data; None if this program shares none."""

    @property
    def shared_answers(self) -> Mapping[str, Any] | None:
        """Return the state of the answers that servers share, as plain data; None if this program shares none."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` in the event loop whenever the snapshot, overrides or farm changes.

        Returns a function that ends the subscription.
        """


class ScoreSource(Protocol):
    """Provides the score that is used for new reports."""

    @property
    def score(self) -> Score: ...  # the score in force

    @property
    def adapted(self) -> WeightSearchStatus | None: ...  # None if adaptive weights are off


class SelectionSource(Protocol):
    """A source of data about the selection of members. Each sequence has one item per member, in the pool's order."""

    def capacities(self, pool: str) -> tuple[Sequence[float], bool]:
        """Return two values: the members' capacities (empty if unknown), and whether they are in requests/s."""

    def answers(self, pool: str) -> Sequence[int]:
        """Return the number of answers that have named each member so far."""

    def guards(self, pool: str) -> Sequence[Guard]:
        """Return the guards that limit the usable members' shares, or nothing if the program selects no members."""

    def backup(self, pool: str) -> BackupUse | None:
        """Return how many answers go to the pool's backup, and why, or None if it has none or none is selected."""

    def sites(self, pool: str) -> SitePlans | None:
        """Return the plans of the pool's sites, or None if it has none or the program selects no members."""

    def shadows(self) -> Mapping[str, Sequence[ShadowStatistics]]:
        """Return the statistics of shadow policies, keyed by pool name."""

    def upcoming(self, pool: Pool) -> Mapping[str, Any]:
        """Return the members that the next answers will name, and why, keyed by policy (see ``Planner.upcoming``).

        The result is empty if the program selects no members.
        """

    async def explain(self, name: str) -> Mapping[str, Any]:
        """Return an explanation of the next answer for ``name`` (see ``lbdns.planning.explanation``).

        Raises UnknownNameError if no pool serves the name, and LbdnsError if no DNS server process replies.
        """


class CounterSource(Protocol):
    """A source of counters for queries and reports. No counter decreases while the program runs."""

    @property
    def queries(self) -> int: ...  # DNS queries received

    @property
    def report_counts(self) -> Mapping[str, int]: ...  # see ``Collector.counts``; empty if another program counts

    @property
    def report_table(self) -> ReportTable | None: ...  # None if another program receives the reports

    def type_and_rcode_counts(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Return the numbers of queries by type name, and the numbers of responses by rcode name."""

    async def refresh(self) -> None:
        """Update the counters, which may require replies from other processes."""

    def metric_families(self) -> Iterable[Metric]:
        """Return the metric families that only this kind of program exports."""


class ProgramSource(Protocol):
    """A source of data about the program itself."""

    @property
    def uptime_s(self) -> float: ...  # seconds since the program started

    @property
    def workers(self) -> int: ...  # number of processes that answer queries; 0 if the program answers none

    @property
    def plane(
        self,
    ) -> str: ...  # the plane that answers queries, "native" or "python"; empty if the program answers none

    @property
    def plane_reason(self) -> str: ...  # why the plane is not the native one; empty if it is, or if there is none

    @property
    def kernel(self) -> Mapping[str, Any] | None: ...  # the state of answering in the kernel; None if it is off

    @property
    def fault(self) -> str: ...  # why the program does not do its work now; empty while it does

    @property
    def events(self) -> EventLog: ...  # the program's event log

    @property
    def history(self) -> LiveHistory | None: ...  # the recorded history; None while recording is off


class StatusSource(Protocol):
    """A source of the whole status of a running program (``lbdns serve`` or ``lbdns-collector``).

    Read the status only in the event loop; reading it is cheap.
    """

    @property
    def members(self) -> MemberSource: ...

    @property
    def scoring(self) -> ScoreSource: ...

    @property
    def selection(self) -> SelectionSource: ...

    @property
    def counters(self) -> CounterSource: ...

    @property
    def program(self) -> ProgramSource: ...

    @property
    def steering(self) -> Steering | None: ...  # None if the program has no overrides


def member_inputs(source: StatusSource) -> StatusInputs:
    """Return the inputs for metrics, a subset of ``status_inputs`` that is quick to compute even for large farms."""
    members, selection = source.members, source.selection
    farm, uptime_s = members.farm, source.program.uptime_s
    return StatusInputs(
        farm=farm,
        snapshot=members.snapshot,
        now=time.monotonic(),
        overrides=members.overrides,
        shared_overrides=members.shared_overrides,
        shared_answers=members.shared_answers,
        answers={},
        server=ProgramStatus(
            __version__,
            uptime_s,
            source.counters.queries,
            source.program.workers,
            time.time() - uptime_s,
            fault=source.program.fault,
            steer=farm.config.web.steer and source.steering is not None,
            scaler=bool(farm.config.web.scaler),
            plane=source.program.plane,
            plane_reason=source.program.plane_reason,
            kernel=source.program.kernel,
        ),
        capacities={pool.name: selection.capacities(pool.name) for pool in farm.pools},
        guards={pool.name: guards for pool in farm.pools if (guards := tuple(selection.guards(pool.name)))},
        backups={pool.name: backup for pool in farm.pools if (backup := selection.backup(pool.name))},
        sites={pool.name: sites for pool in farm.pools if (sites := selection.sites(pool.name))},
    )


def status_inputs(source: StatusSource) -> StatusInputs:
    """Return the inputs for a status document. The inputs are immutable, so another thread may build the document."""
    inputs, selection, history = member_inputs(source), source.selection, source.program.history
    types, rcodes = source.counters.type_and_rcode_counts()
    recording = asdict(history.status) if history else None
    table = source.counters.report_table
    return replace(
        inputs,
        answers={pool.name: tuple(selection.answers(pool.name)) for pool in inputs.farm.pools},
        server=replace(inputs.server, types=types, rcodes=rcodes, history=recording),
        parts=source.scoring.score.parts,
        shadows=selection.shadows(),
        adapted=source.scoring.adapted,
        upcoming=selection.upcoming,
        rejected=_rejected(table, time.time()) if table else None,
    )


def _rejected(table: ReportTable, now: float) -> RejectedStatus:
    bus = table.bus.document() if table.bus else None
    return RejectedStatus(table.rejected.version, dict(table.counts), table.rejected.documents(now), bus)

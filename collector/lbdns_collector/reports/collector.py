"""The collector: connects the report sockets, report table, member checks and snapshot publisher.

``lbdns serve`` embeds a collector.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from lbdns.bus.bus_connection import BusConnection
from lbdns.config import Config
from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import CheckedConfiguration, build_score, build_shadow_score
from lbdns.model.farm import Farm
from lbdns.model.joined_members import NO_JOINED_MEMBERS, JoinedMembers
from lbdns.model.snapshot import Snapshot
from lbdns.process.apply_configuration import PreparedChange
from lbdns.scores.score import Score
from lbdns.sockets.read_watch import ReadWatch
from lbdns_collector.checks.member_checker import MemberChecker
from lbdns_collector.joining.join_requests import JoinRequests
from lbdns_collector.reports.adaptive_weights import WeightSearch, WeightSearchSettings, WeightSearchStatus
from lbdns_collector.reports.bus_reports import BusReports
from lbdns_collector.reports.report_reader import choose_reader
from lbdns_collector.reports.report_socket import ReportSocket
from lbdns_collector.reports.report_table import ReportTable
from lbdns_collector.reports.sequence_file import SequenceKeeper, sequence_path
from lbdns_collector.reports.snapshot_publisher import SnapshotPublisher
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.keys import MasterKey

log = logging.getLogger("lbdns.collector")

NO_SOCKETS: Final[Mapping[Endpoint, socket.socket]] = MappingProxyType({})


class Collector:
    """A collector that receives reports on the configured addresses and delivers snapshots."""

    def __init__(
        self,
        farm: Farm,
        keys: Sequence[MasterKey],
        events: EventLog | None = None,
        *,
        configured: Farm | None = None,
        joined: JoinedMembers = NO_JOINED_MEMBERS,
        bus: BusConnection | None = None,
    ) -> None:
        """``events`` is the event log in which dropped reports are recorded.

        ``joined`` are the joined members in ``farm``, and ``configured`` is the farm without them. Reports also come
        from ``bus``, if it is given; the caller connects and stops it.
        """
        self.farm = farm
        #: Called after each batch of reports in which a host has requested to join, and after each configuration
        self.on_join_requests: Callable[[], None] = _do_nothing
        self._events = events or EventLog()
        self.table = ReportTable(farm.hosts, keys, build_score(farm.config), build_shadow_score(farm.config))
        self.table.use_reader(choose_reader(farm.config.server.plane))
        self.table.max_interval = farm.config.collector.max_interval
        self.table.agentless = farm.agentless
        self.table.adaptive = _adaptive(farm.config, None)
        self.table.joins = JoinRequests(configured or farm, joined)
        self._checker = MemberChecker(self.table, self._changed)
        #: Number of checks so far by pool and result: "passed", "failed" or "not_made"
        self.check_counts: Mapping[tuple[str, str], int] = self._checker.counts
        #: Number of datagrams so far by result: "accepted", or a reason from ``lbdns_shared.report.REASONS``
        self.counts: Mapping[str, int] = self.table.counts
        self._sequences = SequenceKeeper(sequence_path(farm.config), self.table, self._events)
        self._keyed = bool(keys)
        self._bus = BusReports(bus or BusConnection(self._events), self.table, self._changed, self._events)
        self._sockets: list[ReportSocket] = []
        self._lost = 0  # overflows of closed sockets
        self._publisher: SnapshotPublisher | None = None
        self._paused = False
        self._watch: ReadWatch | None = None  # None until the collector starts

    def open(self, inherited: Mapping[Endpoint, socket.socket] = NO_SOCKETS) -> None:
        """Open a socket for each configured address that is not in ``inherited``, a map from addresses to open sockets.

        The method also opens the sockets for ICMP checks. Reports wait in the sockets until ``start`` is called. Raises
        ListenError if an address is not available, or ConfigError if ICMP is not permitted. After an error, the
        collector has no open sockets.
        """
        missing = [endpoint for endpoint in self.farm.config.collector.listen if endpoint not in inherited]
        taken = [ReportSocket(endpoint, inherited=sock) for endpoint, sock in inherited.items()]
        try:
            self._checker.open(self.farm)
            self._sockets = taken + self._open(missing, [])
        except BaseException:
            self._close(taken, leave=True)
            self._checker.stop()
            raise

    async def start(self, deliver: Callable[[Snapshot], None]) -> None:
        """Start receiving reports, and call ``deliver`` with a new snapshot whenever reports change a reading.

        If ``open`` was not called before, this method also opens the sockets. Raises the same errors as ``open``
        (ListenError and ConfigError).
        """
        if not self._sockets:
            self.open()
        await self._sequences.load()  # reports wait in the sockets meanwhile, so none is judged too early
        loop = asyncio.get_running_loop()
        self._watch = ReadWatch(lambda: self._sockets)
        self._publisher = SnapshotPublisher(self.table.snapshot, deliver, loop.call_later, time.perf_counter)
        self._attach(self._sockets)
        self._log_authentication()
        # Sockets that are inherited but no longer configured are closed; reports that wait in them are processed first
        listen = self.farm.config.collector.listen
        self._close([sock for sock in self._sockets if sock.configured not in listen])
        self._sockets = [sock for sock in self._sockets if sock.configured in listen]
        self._checker.start(self.farm)
        self._bus.reconfigure(self.farm.config.bus.pools)
        self._bus.start()
        self._changed()

    def start_saving(self) -> None:
        """Start saving the sequence numbers to the state directory. Call this method after dropping root privileges."""
        self._sequences.start()

    async def stop(self) -> None:
        """Process the reports that have arrived, close the sockets, and save the sequence numbers.

        After this call, no more snapshots are delivered. A paused collector leaves waiting reports in the sockets, so
        that another process can read them.
        """
        publisher, self._publisher = self._publisher, None
        if publisher:
            publisher.stop()
        if self._watch:
            self._watch.stop()
        self._checker.stop()
        self._bus.stop()
        self._close(self._sockets, leave=self._paused or publisher is None)
        self._sockets = []
        await self._sequences.stop()

    def pause(self) -> None:
        """Stop reading reports and checking members. Until ``resume`` is called, new reports wait in the sockets.

        Reports on the bus go to another process, which subscribes meanwhile.
        """
        self._paused = True
        self._bus.stop()
        self._checker.pause()
        for sock in self._sockets:
            sock.pause(asyncio.get_running_loop())

    def resume(self) -> None:
        self._paused = False
        for sock in self._sockets:
            sock.resume(asyncio.get_running_loop())
        self._checker.resume(self.farm)
        self._bus.start()

    def duplicates(self) -> Iterator[tuple[Endpoint, socket.socket]]:
        """Yield the configured address and a duplicate of each socket, for use by another process."""
        for sock in self._sockets:
            yield sock.configured, sock.duplicate()

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        """Open the additional sockets that the configuration ``new`` requires.

        Until the change is committed, reports wait in the new sockets, so no report is lost. Raises ListenError if an
        address is not available, or ConfigError if a new ICMP check is not permitted.
        """
        self._checker.open(new.farm)
        listen = new.farm.config.collector.listen
        kept = [sock for sock in self._sockets if sock.configured in listen]
        dropped = [sock for sock in self._sockets if sock.configured not in listen]
        have = [sock.configured for sock in kept]
        fresh = self._open([endpoint for endpoint in listen if endpoint not in have], dropped)

        def commit() -> None:
            self._attach(fresh)
            self._close(dropped)
            self._sockets = kept + fresh
            self._use(new)

        async def rollback() -> None:
            for sock in fresh:
                # A socket for one address receives reports that the socket for all addresses would have received
                sock.attach(self.table, self._changed, asyncio.get_running_loop(), self._events)
            self._close(fresh)
            for sock in dropped:
                sock.allow_sharing(False)

        return PreparedChange("collector", commit=commit, rollback=rollback)

    def _use(self, new: CheckedConfiguration) -> None:
        self.farm = farm = new.farm
        self._sequences.path = sequence_path(farm.config)
        self.table.max_interval = farm.config.collector.max_interval
        self.table.agentless = farm.agentless
        self.joins.use(new.configured, new.joined)
        adaptive = self.table.adaptive = _adaptive(farm.config, self.table.adaptive)
        score = adaptive.score if adaptive else build_score(farm.config)
        self.table.reconfigure(farm.hosts, new.keys, score, build_shadow_score(farm.config))
        self._bus.reconfigure(farm.config.bus.pools)
        if bool(new.keys) != self._keyed:
            self._keyed = bool(new.keys)
            self._log_authentication()
        self._checker.use(farm)
        self._changed()
        self.on_join_requests()  # a reload may have changed the joined members

    @property
    def joins(self) -> JoinRequests:
        """The rules for joining, and the requests that are not yet in force."""
        assert self.table.joins, "the collector's report table always handles join requests"
        return self.table.joins

    @property
    def addresses(self) -> tuple[Endpoint, ...]:
        """The addresses on which the collector receives reports, with the actual port if port 0 was configured."""
        return tuple(sock.address for sock in self._sockets)

    @property
    def fault(self) -> str:
        """The reason why the collector is not reading reports, or an empty string if it is reading them."""
        return self._watch.fault if self._watch else "not started"

    @property
    def overflows(self) -> int:
        """The number of datagrams that the kernel has dropped so far because the receive buffer was full."""
        return self._lost + sum(sock.overflows for sock in self._sockets)

    @property
    def score(self) -> Score:
        """The score that is computed for new reports. A different score may have been computed for earlier reports."""
        return self.table.score

    @property
    def adapted(self) -> WeightSearchStatus | None:
        """The state of the weight search, or None if adaptive weights are off."""
        adaptive = self.table.adaptive
        if adaptive is None:
            return None
        name = self.farm.config.collector.score
        return WeightSearchStatus(name, adaptive.weights, adaptive.trials, adaptive.accepted, adaptive.gain)

    def deliver_changes(self) -> None:
        """Deliver a snapshot soon, after readings have been stored in the report table from elsewhere."""
        self._changed()

    def _changed(self) -> None:
        if self.table.adaptive:
            for line in self.table.adaptive.take_changes():
                log.info("score %s: %s", self.farm.config.collector.score, line)
        if failed := self.table.take_failed_servers():
            self._checker.hurry(failed)
        if self._publisher is not None:
            self._publisher.changed()
        if self.joins.requested:
            self.on_join_requests()

    def _open(self, endpoints: Sequence[Endpoint], replaced: Sequence[ReportSocket]) -> list[ReportSocket]:
        """Open sockets for all ``endpoints``, or no socket if any endpoint is unavailable. Raises ListenError.

        An endpoint may overlap with the address of a socket in ``replaced``: for example, 0.0.0.0 overlaps with
        192.0.2.1.
        """
        for sock in replaced:
            sock.allow_sharing(True)
        opened: list[ReportSocket] = []
        try:
            for endpoint in dict.fromkeys(endpoints):
                overlaps = endpoint.port in [sock.address.port for sock in replaced]
                opened.append(ReportSocket(endpoint, share=overlaps))
        except BaseException:
            self._close(opened)
            for sock in replaced:
                sock.allow_sharing(False)
            raise
        for sock in opened:
            sock.allow_sharing(False)
        return opened

    def _attach(self, sockets: Sequence[ReportSocket]) -> None:
        loop = asyncio.get_running_loop()
        for sock in sockets:
            sock.attach(self.table, self._changed, loop, self._events)
            log.info("receiving reports on %s", sock.address)

    def _close(self, sockets: Sequence[ReportSocket], leave: bool = False) -> None:
        loop = asyncio.get_running_loop()
        for sock in sockets:
            self._lost += sock.overflows
            sock.close(loop, leave)

    def _log_authentication(self) -> None:
        if self._keyed:
            log.info("reports are accepted if their tag matches a key in the key file")
        else:
            log.warning("no key_file is set: reports from members' addresses are accepted, but addresses can be forged")


def _do_nothing() -> None:
    pass


def _adaptive(config: Config, before: WeightSearch | None) -> WeightSearch | None:
    """Return the weight search configured in ``config``, or None if adaptive weights are off.

    Returns ``before`` if its weights and settings are unchanged, so that a reload does not discard the search results.
    """
    if not config.collector.adapt:
        return None
    score = build_score(config)
    settings = WeightSearchSettings(config.collector.adapt_factor, config.collector.adapt_period)
    if before and before.configured == dict(score.terms) and before.settings == settings:
        return before
    return WeightSearch(score.terms, settings, random.Random())

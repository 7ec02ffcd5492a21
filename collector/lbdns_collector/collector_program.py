"""The ``lbdns-collector`` program: opens report sockets, starts a web server, and runs until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbdns.bus.bus_connection import BusConnection
from lbdns.choosing.guard_rails.guard_rails import Guard
from lbdns.choosing.spillover import BackupUse
from lbdns.config.service_credentials import CREDENTIALS
from lbdns.counting.event_loop_lag import EventLoopLag
from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.configuration_files import read_files
from lbdns.model.farm import Farm, Pool
from lbdns.model.joined_members import JoinedMembers
from lbdns.model.overrides import NO_OVERRIDES
from lbdns.model.snapshot import EMPTY_SNAPSHOT, Snapshot
from lbdns.planning.planner import OBSERVING, Planner
from lbdns.planning.site_plans import SitePlans
from lbdns.process import privileges, program
from lbdns.process.apply_configuration import Part, PreparedChange, apply
from lbdns.process.background_tasks import end_task
from lbdns.process.state_format import check_state_format, record_state_format
from lbdns.process.state_lock import StateLock
from lbdns.process.watchdog import Watchdog, start_watchdog
from lbdns.sockets.inherited_sockets import by_address, sockets_from_service_manager
from lbdns.sockets.socket_store import SocketStore
from lbdns.text.counts import counted
from lbdns_collector.joining.joined_file import include_joined, joined_path, read_joined
from lbdns_collector.reports.collector import Collector
from lbdns_collector.reports.membership import Membership
from lbdns_collector.snapshots.snapshot_sender import SnapshotSender
from lbdns_collector.snapshots.warm_up import warm_up
from lbdns_collector.status.history_sampler import HistorySampler
from lbdns_collector.status.stat_file import StatFile
from lbdns_collector.status.status_document import ShadowStatistics
from lbdns_collector.status.status_source import NOT_SERVING
from lbdns_collector.web.web_interface import WebInterface
from lbdns_shared import service_manager
from lbdns_shared.errors import ConfigError, LbdnsError, UnknownNameError
from lbdns_shared.log_writer import lost_lines

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from lbdns.history.live_history import LiveHistory

log = logging.getLogger("lbdns.collector")


class CollectorMembers:
    """The MemberSource of a collector that runs without a DNS server.

    This class also logs changes in the members' states.
    """

    overrides = NO_OVERRIDES
    shared_overrides = None
    shared_answers = None

    def __init__(self, collector: Collector, events: EventLog) -> None:
        self._collector = collector
        self._callbacks: list[Callable[[], None]] = []
        self.snapshot: Snapshot = EMPTY_SNAPSHOT
        # This planner makes no plans, because the program answers no queries; it observes the members' states
        self.planner = Planner(collector.farm, {}, asyncio.get_running_loop(), events=events, pause=OBSERVING)

    @property
    def farm(self) -> Farm:
        return self._collector.farm

    def deliver(self, snapshot: Snapshot) -> None:
        """Replace the current snapshot, and notify the subscribers."""
        self.snapshot = snapshot
        self.planner.deliver(snapshot)
        self._notify()

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        """Return a change that switches to the members in ``new`` when the change is committed.

        Commit this change only after the collector's own change.
        """

        def commit() -> None:
            self.planner.use(new.farm, {})
            self._notify()

        return PreparedChange("states of members", commit=commit)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def _notify(self) -> None:
        for callback in tuple(self._callbacks):
            callback()


class CollectorStatusSource:
    """The StatusSource, CounterSource and SelectionSource of a collector that runs without a DNS server."""

    queries = 0
    steering = None

    def __init__(self, collector: Collector, program: CollectorProgram) -> None:
        self.scoring = self._collector = collector
        self.members = CollectorMembers(collector, program.events)
        self.program = program
        self.selection = self.counters = self
        self.capacities = self.members.planner.capacities
        self.report_counts, self.report_table = collector.counts, collector.table
        self.lag: EventLoopLag | None = None
        self.sender: SnapshotSender | None = None  # set by the program

    def answers(self, pool: str) -> Sequence[int]:
        return ()

    def guards(self, pool: str) -> Sequence[Guard]:
        return ()

    def backup(self, pool: str) -> BackupUse | None:
        return None

    def sites(self, pool: str) -> SitePlans | None:
        return None

    def upcoming(self, pool: Pool) -> Mapping[str, Any]:
        return {}

    def shadows(self) -> Mapping[str, Sequence[ShadowStatistics]]:
        return {}

    async def explain(self, name: str) -> Mapping[str, Any]:
        raise UnknownNameError("a collector does not answer queries; use a DNS server that follows this collector")

    def type_and_rcode_counts(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        return {}, {}

    async def refresh(self) -> None:
        """Do nothing: the counters are always current."""

    def metric_families(self) -> Iterable[Metric]:
        from lbdns_collector.prometheus.exposition import family
        from lbdns_collector.prometheus.status_families import (
            LOG_LINES_LOST,
            collector_families,
            lag_families,
            snapshot_families,
        )  # fmt: skip

        yield from collector_families(self._collector)
        if self.sender and self._collector.table.bus:
            yield from snapshot_families(self.sender.counts)
        yield family(LOG_LINES_LOST[0], "counter", LOG_LINES_LOST[1], lost_lines())
        if self.lag:
            found = self.lag.figures()
            yield from lag_families(found.lag, found.lag_us)


class CollectorProgram:
    """A collector program, which runs the collector, web interface and stat file described in one configuration file.

    This class implements ``lbdns.process.program.Program`` and ProgramSource. Construct instances inside a running
    event loop; the constructor locks the state directory. Raises LbdnsError.
    """

    workers = 0
    plane = plane_reason = ""
    kernel = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state_lock = StateLock()
        configuration = self._load()
        self.events = EventLog()
        self.serving = False
        self._started = time.monotonic()
        self._watchdog: Watchdog | None = None
        self._bus = BusConnection(self.events)
        self._collector = Collector(
            configuration.farm,
            configuration.keys,
            self.events,
            configured=configuration.configured,
            joined=configuration.joined,
            bus=self._bus,
        )
        self._current = configuration
        self._inherited = sockets_from_service_manager(configuration.farm.config, os.environ, serves_dns=False)
        self._store = SocketStore(waiting="reports")
        self._changing = asyncio.Lock()  # held by a reload, and while members join or leave
        self._membership = Membership(self._collector, self._use_members, self.events)
        self._status = CollectorStatusSource(self._collector, self)
        self._sender = SnapshotSender(self._bus, self._status.members, self._collector, configuration.keys)
        self._status.sender = self._sender
        self._warming: asyncio.Task[None] | None = None
        self._history_sampler = HistorySampler(self._status)
        self._web = WebInterface(self._status)
        self._stat_file = StatFile(self._status.members)
        self._parts: Sequence[Part[CheckedConfiguration]] = (
            self._web, self._bus, self._collector, self._status.members, self._sender, self._history_sampler,
        )  # fmt: skip
        self._member_parts = self._parts[1:]  # the web interface would read its files again

    def _load(self) -> CheckedConfiguration:
        """Read the configuration, and lock the state directory before its files are read. Raises LbdnsError."""
        try:
            return load_collector(self._path, lock_state=self._state_lock.take)
        except BaseException:
            self._state_lock.release()
            raise

    @property
    def user(self) -> str:
        """The user account under which the program runs after opening the sockets."""
        return self._status.members.farm.config.server.user

    @property
    def history(self) -> LiveHistory | None:
        return self._history_sampler.history

    @property
    def fault(self) -> str:
        return self._collector.fault if self.serving else NOT_SERVING

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started

    async def start(self) -> None:
        """Open the report sockets, drop root privileges, then start the web server.

        Raises LbdnsError if the program cannot start; all sockets are then closed.
        """
        farm = self._status.members.farm
        for warning in farm.warnings:
            log.warning(warning)
        if farm.config.web.listen is None and farm.config.collector.stat_file is None:
            log.warning("[web] listen is off and stat_file is not set: the collected data is not published anywhere")
        server = farm.config.server
        try:
            self._store.holds(each.sock for each in self._inherited)
            self._collector.open(by_address(self._inherited, "reports", farm.config.collector.listen))
            self._bus.use(self._current.bus)
            self._warming = await warm_up(self._bus, self._current.keys, self._collector, self.events)
            await self._collector.start(self._status.members.deliver)
            await privileges.drop_root(server.user, farm.config.path, farm.config.files)
            self.serving = True
            self._status.lag = EventLoopLag("main")
            listen = farm.config.web.listen
            web = by_address(self._inherited, "web", [listen]).get(listen) if listen else None
            await self._web.start(farm.config.web, web)
        except LbdnsError:
            await self.stop()
            raise
        await asyncio.to_thread(record_state_format, farm.config.server.state_dir)
        self._collector.start_saving()
        self._sender.start()
        self._membership.start()
        self._stat_file.start()
        await self._history_sampler.start()
        members = {member.full_name for pool in farm.pools for member in pool.members}
        self.events.record(
            "server", f"ready: {counted(len(farm.pools), 'pool')}, {counted(len(members), 'member')}", logger=log.name
        )
        await self._store.update_and_close(self._duplicates())
        service_manager.notify(service_manager.ready(os.getpid()))
        self._watchdog = start_watchdog(lambda: self.fault)

    async def stop(self) -> None:
        self.serving = False
        service_manager.notify(service_manager.STOPPING)
        await self._membership.stop()
        if self._watchdog:
            self._watchdog.stop()
        if self._status.lag:
            self._status.lag.stop()
        await self._stat_file.stop()
        await self._web.stop()
        await self._history_sampler.stop()
        await end_task(self._warming)
        await self._sender.stop()
        await self._collector.stop()
        await self._bus.stop()
        self._status.members.planner.stop()
        self._state_lock.release()

    async def reload(self) -> None:
        """Read the configuration again and apply it. Reports and scores survive the reload.

        Raises LbdnsError. If this method raises any error except PartlyAppliedError, the old configuration remains in
        use.
        """
        service_manager.notify(service_manager.reloading())
        try:
            # In a thread: reading a large zone takes seconds, and reports must be read meanwhile
            async with self._changing:
                new = await asyncio.to_thread(load_collector, self._path, self._current.joined)
                if new.farm.config.server.user != self.user:
                    raise ConfigError(f"{self._path}: [server] user: a change requires a restart")
                server = new.farm.config.server
                with self._state_lock.changing_to(server.state_dir, server.user):
                    await apply(self._parts, new)
                self._current = new
                await asyncio.to_thread(record_state_format, new.farm.config.server.state_dir)
                await self._store.update_and_close(self._duplicates())
        finally:
            service_manager.notify(service_manager.READY)
        for warning in new.farm.warnings:
            log.warning(warning)

    def _duplicates(self) -> Iterator[socket.socket]:
        """Yield a duplicate of each listening socket. Raises OSError if no descriptors are left."""
        for _, reports in self._collector.duplicates():
            yield reports
        if web := self._web.duplicate():
            yield web[1]

    async def _use_members(self, joined: JoinedMembers) -> None:
        """Accept reports from ``joined`` instead of the previous joined members. Raises LbdnsError."""
        async with self._changing:
            farm, joined = include_joined(self._current.configured, joined)
            new = replace(self._current, farm=farm, joined=joined)
            await apply(self._member_parts, new)
            self._current = new


def load_collector(
    path: Path,
    joined: JoinedMembers | None = None,
    lock_state: Callable[[Path, str], object] = lambda folder, user: None,
) -> CheckedConfiguration:
    """Read the configuration, zones and keys for a collector that runs without a DNS server. Raises ConfigError.

    ``joined`` contains the currently joined members; if None, they are read from their file. ``lock_state`` is called
    with the state directory and the server's user before the first file in this directory is read; errors of this
    function are passed on.
    """
    files = read_files(path, serves_dns=False)
    farm = files.farm
    connect = farm.config.collector.connect
    if connect:
        raise ConfigError(
            f"{path}: [collector] connect: {connect!r} makes 'lbdns serve' follow another collector; "
            "remove connect, because lbdns-collector receives reports itself"
        )
    privileges.check_user(farm.config.server.user)
    lock_state(farm.config.server.state_dir, farm.config.server.user)
    check_state_format(farm.config.server.state_dir)
    for warning in files.warnings:
        log.warning(warning)
    joined = read_joined(joined_path(farm.config)) if joined is None else joined
    with_members, joined = include_joined(farm, joined)
    return CheckedConfiguration(with_members, files.report_keys, joined=joined, without_joined=farm, bus=files.bus)


async def run(path: Path) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reloads the configuration. Raises LbdnsError if the collector can't start."""
    CREDENTIALS.use(os.environ)
    collector = CollectorProgram(path)
    privileges.limit(collector.user)
    await program.run(collector)

"""``lbdns serve``: creates the parts of the DNS server, and starts, reloads and stops them together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lbdns.bus.bus_connection import BusConnection
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm
from lbdns.model.joined_members import JoinedMembers
from lbdns.process import privileges
from lbdns.process.apply_configuration import Part, apply
from lbdns.process.background_tasks import end_task
from lbdns.process.state_format import record_state_format
from lbdns.process.state_lock import StateLock
from lbdns.process.watchdog import Watchdog, start_watchdog
from lbdns.server.answer_sharing.answer_exchange import AnswerExchange
from lbdns.server.control.control_commands import OverrideSteering, override_commands, server_commands
from lbdns.server.control.control_socket import ControlCommand, ControlSocket
from lbdns.server.control.override_manager import OverrideManager
from lbdns.server.control.override_sharing import OverrideSharing
from lbdns.server.control.takeover import Predecessor, Successor
from lbdns.server.dns_service import Answerer, DnsService
from lbdns.server.followed_members import FollowedMembers
from lbdns.server.local_answerer import LocalAnswerer
from lbdns.server.secondaries.notifier import Secondaries
from lbdns.server.server_configuration import (
    NO_SERVE_OPTIONS,
    CurrentConfiguration,
    ServeConfiguration,
    ServeOptions,
    read_configuration,
    with_members,
)
from lbdns.server.server_sockets import ServerSockets
from lbdns.server.server_status import ServerStatus
from lbdns.server.workers.fork_server import ForkServer
from lbdns.server.workers.worker_pool import WorkerPool
from lbdns.server.xdp.kernel_answering import KernelAnswering
from lbdns.sockets.inherited_sockets import InheritedSocket, by_address, take_one
from lbdns_collector.reports.collector import Collector
from lbdns_collector.reports.membership import Membership
from lbdns_collector.snapshots.snapshot_sender import SnapshotSender
from lbdns_collector.snapshots.warm_up import warm_up
from lbdns_collector.status.history_sampler import HistorySampler
from lbdns_collector.status.stat_file import StatFile
from lbdns_collector.web.web_interface import WebInterface, open_web_socket
from lbdns_shared import service_manager
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

if TYPE_CHECKING:
    from lbdns.server.bus_follower import BusFollower
    from lbdns.server.collector_follower import CollectorFollower

log = logging.getLogger("lbdns.server")


class DnsServer:
    """The DNS server, a ``lbdns.process.program.Program``.

    Creating an instance requires a running event loop, reads the configuration, and locks the state directory. Raises
    LbdnsError.
    """

    def __init__(
        self,
        path: Path,
        options: ServeOptions = NO_SERVE_OPTIONS,
        fork_servers: Sequence[ForkServer] = (),
        inherited: Sequence[InheritedSocket] = (),
    ) -> None:
        """``fork_servers`` start the workers; if there are no fork servers, this process answers all queries.

        ``inherited`` contains the sockets received from a service manager.
        """
        self._path, self._options, self._inherited = path, options, inherited
        self._state_lock = StateLock()
        configuration = self._read_configuration()
        self.events = EventLog()
        self.over = asyncio.Event()  # set when this server ends without a signal
        self.failure = ""  # why it ends; empty if another process has taken over
        self._is_replaced = False  # by another process, which now answers
        self._current = CurrentConfiguration(path, configuration)
        self._dns = DnsService(self._make_answerer(configuration, fork_servers))
        self._kernel = KernelAnswering(self.farm.config, self.events)
        self._status = ServerStatus(self.farm, self._dns.answerer, self.events, self._kernel)
        self._history = self._status.program.recording = HistorySampler(self._status)
        self._bus = BusConnection(self.events)
        self._collector: Collector | None = None
        self._sender: SnapshotSender | None = None
        self._warming: asyncio.Task[None] | None = None
        self._membership: Membership | FollowedMembers
        self._feed = self._make_feed(configuration)
        self._web = WebInterface(self._status)
        self._stat_file = StatFile(self._status.members)
        self._secondaries = Secondaries()
        sharing = OverrideSharing(self._bus, configuration.keys, self.events)
        self._overrides = OverrideManager(self.farm, self._dns.answerer, self.events, sharing=sharing)
        self._status.members.sharing = self._overrides.sharing_document
        self._exchange = AnswerExchange(self._bus, self._dns.answerer, self.farm.config, configuration.keys)
        self._status.members.answer_sharing = self._exchange.document
        if self._status.counters.follower:
            self._status.counters.follower.on_overrides = self._overrides.follow
        self._status.steering = OverrideSteering(self._overrides)
        self._watchdog: Watchdog | None = None
        self._changing = asyncio.Lock()  # held by a reload or a take-over
        self._predecessor: Predecessor | None = None
        self._control = ControlSocket(
            {**server_commands(path, self, self._hand_over, self._status), **override_commands(self._overrides)}
        )
        self._sockets = ServerSockets(self._dns, self._collector, self._web, self._control)
        #: All parts, in the order in which they prepare and commit. The status precedes the web interface, which shows
        #: it, and the answerer precedes secondaries, which query it. Workers prepare before the collector because they
        #: take longest: reports at new addresses then wait as briefly as possible.
        self._parts: Sequence[Part[ServeConfiguration]] = (
            self._current,
            self._status.members,
            self._web,
            self._control,
            self._dns,
            self._bus,
            self._feed,
            *([self._sender] if self._sender else []),
            self._overrides,
            self._exchange,
            self._history,
            self._secondaries,
        )

        #: The parts that depend on the pools' members. The others would read their files again.
        self._member_parts = [part for part in self._parts if part not in (self._web, self._control)]

    def _read_configuration(self) -> ServeConfiguration:
        """Read the configuration, and lock the state directory before its files are read. Raises LbdnsError."""
        try:
            return read_configuration(self._path, self._options, lock_state=self._state_lock.take)
        except BaseException:
            self._state_lock.release()
            raise

    @property
    def farm(self) -> Farm:
        return self._current.farm

    def _make_answerer(self, configuration: ServeConfiguration, fork_servers: Sequence[ForkServer]) -> Answerer:
        if not fork_servers:
            return LocalAnswerer(configuration.table, events=self.events)
        workers = configuration.farm.config.server.workers
        return WorkerPool(configuration.farm, fork_servers, workers, self._fail, self.events)

    def _make_follower(self, configuration: ServeConfiguration) -> CollectorFollower | BusFollower:
        if self.farm.config.collector.follows_bus:
            from lbdns.server.bus_follower import BusFollower

            return BusFollower(self.farm, configuration.keys, self._bus, self.events)
        # Imported here: only a server that follows another collector needs an HTTP client
        from lbdns.server.collector_follower import CollectorFollower

        return CollectorFollower(self.farm, events=self.events)

    def _make_feed(self, configuration: ServeConfiguration) -> Collector | CollectorFollower | BusFollower:
        if self.farm.config.collector.connect:
            follower = self._status.counters.follower = self._make_follower(configuration)
            members = self._membership = FollowedMembers(lambda: self.farm, self._use_members)
            follower.on_members = members.receive
            return follower
        self._collector = self._status.scoring.collector = Collector(
            self.farm, configuration.keys, self.events, configured=configuration.configured,
            joined=configuration.joined, bus=self._bus,
        )  # fmt: skip
        self._membership = Membership(self._collector, self._use_members, self.events)
        self._sender = self._status.counters.sender = SnapshotSender(
            self._bus, self._status.members, self._collector, configuration.keys
        )
        return self._collector

    async def start(self) -> None:
        """Open the sockets, drop root privileges, and then open the web interface.

        If startup fails, the method closes everything and raises LbdnsError.
        """
        for warning in self.farm.warnings:
            log.warning(warning)
        try:
            if self._options.take_over:
                await self._take_over()
            else:
                await self._open()
        except LbdnsError:
            await self.stop()
            raise
        await asyncio.to_thread(record_state_format, self.farm.config.server.state_dir)
        if self._collector:
            self._collector.start_saving()
        if self._sender:
            self._sender.start()
        self._exchange.start()
        self._membership.start()
        self._stat_file.start()
        self._secondaries.start(self._current.value)
        await self._history.start()
        plane = self._current.value.table.plane.name
        self._record(f"ready: {self.farm.size}, {plane} plane")
        await self._sockets.store()
        service_manager.notify(service_manager.ready(os.getpid()))
        self._watchdog = start_watchdog(lambda: self._status.program.fault, took_over=self._options.take_over)

    async def _open(self) -> None:
        config = self.farm.config
        self._sockets.holds(each.sock for each in self._inherited)
        await self._overrides.restore()
        await self._dns.start(self._current.value, self._inherited)
        if self._collector:
            self._collector.open(by_address(self._inherited, "reports", config.collector.listen))
        self._bus.use(self._current.value.bus)
        if self._collector:
            self._warming = await warm_up(self._bus, self._current.value.keys, self._collector, self.events)
        await self._feed.start(self._dns.answerer.deliver)
        await self._control.start(config.server.control, privileges.ids(config.server.user))
        self._open_kernel({})
        await self._drop_root()
        self._overrides.begin()
        self._status.program.serving = True
        listen = config.web.listen
        await self._web.start(config.web, by_address(self._inherited, "web", [listen]).get(listen) if listen else None)

    async def _take_over(self) -> None:
        """Take over from a running server, which is stopped once this server is certain to start."""
        config = self.farm.config
        self._predecessor = predecessor = await Predecessor.meet(config.server.control)
        inherited = predecessor.inherited
        self._sockets.holds(each.sock for each in inherited if each.purpose != "control")
        self._dns.own_secrets = predecessor.secrets or self._dns.own_secrets
        if self._collector:
            self._collector.open({each.asked: each.sock for each in inherited if each.purpose == "reports"})
        web = take_one(inherited, "web", config.web.listen) or (
            open_web_socket(config.web.listen) if config.web.listen else None
        )
        self._overrides.inherit(predecessor.overrides, predecessor.orders)
        self._dns.answerer.deliver(predecessor.snapshot)
        await self._dns.start(self._current.value, inherited)
        self._open_kernel(predecessor.links)
        await self._drop_root()
        reports = await predecessor.reports()
        if self._collector and reports is not None:
            try:
                self._collector.table.restore(reports, time.monotonic())
            except ValueError as error:
                raise LbdnsError(f"--take-over: {config.server.control}: {error}") from None
        try:
            self._status.counters.inherit(await predecessor.finish())
        except LbdnsError as error:
            # The old server may have ended already, so this server must continue
            log.warning("%s. The counters of the replaced server are lost", error)
        self._overrides.begin()
        self._bus.use(self._current.value.bus)
        await self._feed.start(self._dns.answerer.deliver)
        # The predecessor no longer uses the sockets at addresses that are not configured now, so close them
        await self._dns.start(self._current.value)
        control = take_one(inherited, "control", Endpoint(str(config.server.control), 0))
        await self._control.start(config.server.control, privileges.ids(config.server.user), control)
        self._status.program.serving = True
        await self._web.start(config.web, web)

    def _open_kernel(self, links: Mapping[str, int]) -> None:
        """Let the kernel answer too, if the configuration says so; ``links`` are those of the server before."""
        self._kernel.open(self.farm.config, links)
        if isinstance(self._dns.answerer, LocalAnswerer):
            self._dns.answerer.share_answers(self._kernel)

    async def _drop_root(self) -> None:
        config = self.farm.config
        await privileges.drop_root(config.server.user, config.path, config.files)

    async def reload(self) -> None:
        """Reread the configuration and apply it. No query, report, score or counter is lost during a reload.

        Raises LbdnsError. After any exception except PartlyAppliedError, every part still uses the old configuration.
        """
        async with self._changing:
            service_manager.notify(service_manager.reloading())
            try:
                # In a thread, so that queries are answered during the seconds that reading a large zone takes
                serials, joined = self._current.value.serials, self._current.value.joined
                new = await asyncio.to_thread(read_configuration, self._path, self._options, serials, joined)
                server = new.farm.config.server
                with self._state_lock.changing_to(server.state_dir, server.user):
                    await apply(self._parts, new)
                if isinstance(self._membership, FollowedMembers):
                    self._membership.apply_again()
                await asyncio.to_thread(record_state_format, new.farm.config.server.state_dir)
                await self._sockets.store()
            finally:
                service_manager.notify(service_manager.READY)

    async def _use_members(self, joined: JoinedMembers) -> None:
        """Replace the current joined members with ``joined``. Raises LbdnsError."""
        async with self._changing:
            if joined != self._current.value.joined:
                await apply(self._member_parts, await asyncio.to_thread(with_members, self._current.value, joined))

    async def stop(self) -> None:
        self._status.program.serving = False
        service_manager.notify(service_manager.STOPPING)
        await self._control.stop()
        await self._end()
        if self._predecessor:
            self._predecessor.close()

    async def _hand_over(self, command: ControlCommand) -> None:
        """Hand over to the process that sent the command ``take-over``. If the handover fails, keep running."""
        if self._changing.locked():
            raise LbdnsError("take-over: a reload or another take-over is in progress; try again later")
        async with self._changing, self._overrides.handing_over:
            successor = await Successor.meet(command)
            self._record("a new process requests a take-over")
            try:
                with contextlib.closing(successor):
                    await self._hand_over_to(successor)
            except LbdnsError as error:
                self._record(f"take-over: {error}; this server keeps running", logging.ERROR)
                self._kernel.take_back()
            finally:
                if self._is_replaced:
                    self._record("a new process has taken over")
                    self.over.set()

    async def _hand_over_to(self, successor: Successor) -> None:
        planner = self._dns.answerer.planner
        secrets = self._dns.secrets(self._current.value)
        state = planner.snapshot, planner.overrides, self._overrides.orders, secrets, self._kernel.links
        successor.send_state(self._sockets.duplicates(), *state)
        await successor.wait_for("reports")
        reports = None
        if self._collector:
            self._collector.pause()
            reports = self._collector.table.state(time.monotonic())
        successor.send_reports(reports)
        try:
            await successor.wait_for("finish")
        except LbdnsError:
            if self._collector:
                self._collector.resume()
            raise
        self._is_replaced = True  # from here on there is no way back
        self._status.program.serving = False
        await self._control.stop_listening(leave=True)
        await self._end()
        await successor.finish(self._status.counters.total())

    async def _end(self) -> None:
        """Answer the queries that have been read, and then close everything except the control socket."""
        await self._overrides.stop()
        await self._exchange.stop()
        await self._membership.stop()
        if self._watchdog:
            self._watchdog.stop()
        await self._secondaries.stop()
        await self._stat_file.stop()
        await self._web.stop()
        await end_task(self._warming)
        if self._sender:
            await self._sender.stop()
        await self._feed.stop()
        await self._bus.stop()
        await self._history.stop()
        await self._dns.stop()
        self._state_lock.release()

    def _record(self, text: str, level: int = logging.INFO) -> None:
        self.events.record("server", text, level=level, logger=log.name)

    def _fail(self, why: str) -> None:
        """Stop the server with an error, so that a service manager restarts it."""
        self.failure = why
        self.over.set()

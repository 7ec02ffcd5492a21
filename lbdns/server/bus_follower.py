"""Follows the collectors on a bus: converts their messages into snapshots."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lbdns.bus.bus_connection import BusConnection, BusError, BusSubscription
from lbdns.bus.signed_message import MessageKeys
from lbdns.config.collector_section import BUS
from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.farm import Farm
from lbdns.model.joined_members import JoinedMembers
from lbdns.model.overrides import Override
from lbdns.model.snapshot import Snapshot
from lbdns.model.snapshot_maker import SnapshotMaker
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.background_tasks import end_task
from lbdns_collector.reports.snapshot_publisher import SnapshotPublisher
from lbdns_collector.snapshots.snapshot_messages import CHANGES, PURPOSE, REQUESTS
from lbdns_collector.snapshots.snapshot_receiver import SnapshotReceiver
from lbdns_shared.keys import MasterKey

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from prometheus_client.core import Metric

log = logging.getLogger("lbdns.follow")

STEP: Final = 0.25  # seconds between two checks of what is missing, and of which collectors are silent


def _do_nothing() -> None:
    pass


class BusFollower:
    """Follows all collectors on the bus, and delivers snapshots of the farm's members.

    While no collector sends anything, no snapshots are delivered, and the readings age as if the agents had stopped
    reporting.
    """

    def __init__(self, farm: Farm, keys: Iterable[MasterKey], bus: BusConnection, events: EventLog) -> None:
        self._bus, self._events = bus, events
        #: Called with the collectors' overrides whenever they may have changed
        self.on_overrides: Callable[[Sequence[Override]], None] = lambda _: None
        #: Called with the collectors' joined members whenever they may have changed
        self.on_members: Callable[[JoinedMembers], None] = lambda _: None
        self._receiver = SnapshotReceiver(MessageKeys(tuple(keys), PURPOSE))
        self._alive: list[str] = []  # names of the collectors whose snapshots are in use
        self._joined: JoinedMembers | None = None
        self._maker = SnapshotMaker()
        self._publisher: SnapshotPublisher | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._subscriptions: list[BusSubscription] = []
        self._unwatch: Callable[[], None] = _do_nothing
        self._use(farm)

    @property
    def connected(self) -> bool:
        """Whether the whole snapshot of a collector has arrived that still sends messages."""
        return bool(self._alive)

    async def start(self, deliver: Callable[[Snapshot], None]) -> None:
        """Subscribe, and call ``deliver`` with a new snapshot whenever a collector sends a change."""
        loop = asyncio.get_running_loop()
        self._publisher = SnapshotPublisher(self._make, deliver, loop.call_later, time.perf_counter)
        self._subscriptions = [
            self._bus.subscribe(subject, self._receive) for subject in (CHANGES, self._receiver.reply_subject)
        ]
        self._unwatch = self._bus.watch(self._connection_changed)
        self._task = loop.create_task(self._run())

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        """Return a change that switches to the members and keys of ``new``."""

        def commit() -> None:
            before = self._members
            self._use(new.farm)
            self._receiver.readings.forget(before - self._members)
            self._maker.replace_all(self._receiver.readings.of(self._members))
            self._receiver.keys = MessageKeys(new.keys, PURPOSE)
            if self._publisher is not None:
                self._publisher.changed()

        async def finish() -> None:
            self._follow_overrides()  # they may concern members that have just joined

        return PreparedChange("collectors on the bus", commit, finish)

    async def stop(self) -> None:
        if self._publisher is not None:
            self._publisher.stop()
        self._unwatch()
        self._unwatch = _do_nothing
        for subscription in self._subscriptions:
            subscription.end()
        await end_task(self._task)
        self._task = None

    def metric_families(self) -> Iterator[Metric]:
        from lbdns.server.server_families import bus_follower_families

        yield from bus_follower_families(self._bus.state.connected, self._receiver.counts)

    def _use(self, farm: Farm) -> None:
        self._members = {member.full_name for pool in farm.pools for member in pool.members}

    def _make(self) -> Snapshot:
        changed = self._receiver.readings.take_changed()
        self._maker.update({name: reading for name, reading in changed.items() if name in self._members})
        return self._maker.make()

    def _connection_changed(self) -> None:
        if self._bus.state.connected:
            self._receiver.ask_everybody()  # changes may have been lost meanwhile
        self._wake.set()

    async def _receive(self, message: Msg) -> None:
        if not message.data:
            return  # the server says that no collector subscribes to requests
        now = time.monotonic()
        found = self._receiver.take(message.data, now, time.time())
        if found is None:
            self._wake.set()  # a new collector must be asked
            return
        if found.is_last:
            self._note_alive(now)
        if found.overrides is not None:
            self._follow_overrides()
        if found.joined is not None or found.is_last:
            self._follow_members(now)
        if found.members and self._publisher is not None:
            self._publisher.changed()

    async def _run(self) -> None:
        while True:
            try:
                await self._step()
            except Exception:
                log.exception("bus: following the collectors failed")  # stopping would be worse than trying again
            try:
                async with asyncio.timeout(STEP):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def _step(self) -> None:
        now = time.monotonic()
        self._note_alive(now)
        if self._bus.client is None:
            return
        for request in self._receiver.requests(now, time.time()):
            try:
                await self._bus.publish(REQUESTS, request, self._receiver.reply_subject)
            except BusError as error:
                log.debug("bus: a request cannot be published: %s", error)

    def _note_alive(self, now: float) -> None:
        """Record which collectors have appeared or fallen silent."""
        before, self._alive = self._alive, self._receiver.alive(now)
        if before == self._alive:
            return
        names = ", ".join(self._alive)
        if self._alive:
            self._record(f"following {names} over the bus", logging.INFO)
            self._follow_members(now)
        else:
            self._record("no collector sends anything over the bus; readings age until one returns", logging.WARNING)

    def _record(self, text: str, level: int) -> None:
        self._events.record("collector", text, level=level, logger=log.name)

    def _follow_overrides(self) -> None:
        found = [each for each in self._receiver.overrides() if each.member in self._members]
        self.on_overrides([each if each.origin else replace(each, origin=BUS) for each in found])

    def _follow_members(self, now: float) -> None:
        if self._receiver.alive(now):
            joined = self._receiver.joined(now)
            if joined != self._joined:
                self._joined = joined
                self.on_members(joined)

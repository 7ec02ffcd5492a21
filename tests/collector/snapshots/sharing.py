"""A collector that shares its readings over a real nats-server, in the test's event loop."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

from lbdns.bus.bus_connection import BusConnection
from lbdns.events.event_log import EventLog
from lbdns_collector.collector_program import CollectorMembers
from lbdns_collector.reports.collector import Collector
from lbdns_collector.snapshots.snapshot_sender import SnapshotSender
from tests.bus.bus_fixtures import access
from tests.collector.collector_fixtures import KEY, datagram, make_farm
from tests.end_to_end.nats_bus import Bus

LISTEN = 'listen = ["127.0.0.1:0"]\n'


class Sharer:
    """A collector with its connection to the bus and its sender."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.events = EventLog()
        self.bus = BusConnection(self.events)
        self.collector = Collector(make_farm(folder, collector=LISTEN), (KEY,), self.events, bus=self.bus)
        self.members = CollectorMembers(self.collector, self.events)
        self.sender = SnapshotSender(self.bus, self.members, self.collector, (KEY,))

    def report(self, host: str, seq: int = 1) -> str:
        """Pass a report to the collector, and return the result."""
        data = datagram(host, seq=seq, at=time.time())
        result = self.collector.table.accept(data, "127.0.0.1", time.monotonic(), time.time())
        self.collector._changed()
        return result


@contextlib.asynccontextmanager
async def sharing(folder: Path, bus: Bus) -> AsyncIterator[Sharer]:
    """Run a collector that shares its readings."""
    sharer = Sharer(folder)
    sharer.bus.use(access(bus))
    await sharer.collector.start(sharer.members.deliver)
    sharer.sender.start()
    try:
        yield sharer
    finally:
        await sharer.sender.stop()
        await sharer.collector.stop()
        sharer.members.planner.stop()
        await sharer.bus.stop()

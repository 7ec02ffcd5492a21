"""Warms up a collector that starts: adopts the readings and the sequence numbers of another collector on the bus."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lbdns.bus.bus_connection import BusConnection, BusError
from lbdns.bus.signed_message import MessageKeys
from lbdns.events.event_log import EventLog
from lbdns.model.snapshot import Reading
from lbdns.text.counts import counted
from lbdns_collector.reports.collector import Collector
from lbdns_collector.reports.report_table import ReportTable
from lbdns_collector.snapshots.snapshot_messages import PURPOSE, REQUESTS, SnapshotMessage
from lbdns_collector.snapshots.snapshot_receiver import SnapshotReceiver
from lbdns_shared.keys import MasterKey
from lbdns_shared.report import is_host_name

if TYPE_CHECKING:
    from nats.aio.msg import Msg

LONGEST: Final = 1.0  # seconds that a start waits; reports wait in the sockets meanwhile
LATEST: Final = 30.0  # seconds after which no reply is awaited any more


async def warm_up(
    bus: BusConnection, keys: Sequence[MasterKey], collector: Collector, events: EventLog, longest: float = LONGEST
) -> asyncio.Task[None] | None:
    """Adopt the snapshot of another collector, if one replies.

    Call this function before the collector starts to read reports, and before it reads its own sequence file: the other
    collector's sequence numbers are newer. This function waits at most ``longest`` seconds. A reply that comes later
    still counts for hosts that have not reported meanwhile: the returned task waits for it, and the caller ends the
    task. Without ``[bus]``, the function returns None at once.
    """
    if not bus.is_configured or not keys:
        return None
    task = asyncio.get_running_loop().create_task(_ask(bus, keys, collector, events))
    await asyncio.wait((task,), timeout=longest)
    return task


async def _ask(bus: BusConnection, keys: Sequence[MasterKey], collector: Collector, events: EventLog) -> None:
    warming = _WarmUp(collector, SnapshotReceiver(MessageKeys(keys, PURPOSE)))
    subscription = bus.subscribe(warming.receiver.reply_subject, warming.receive)
    tried = asyncio.Event()
    unwatch = bus.watch(tried.set)
    try:
        async with asyncio.timeout(LATEST):
            await tried.wait()
            for request in warming.receiver.requests(time.monotonic(), time.time()):
                await bus.publish(REQUESTS, request, warming.receiver.reply_subject)
                await warming.done.wait()
    except (TimeoutError, BusError):
        pass  # without another collector, this one starts as it would without a bus
    finally:
        unwatch()
        subscription.end()
    if warming.members:
        text = f"{counted(warming.members, 'reading')} adopted from the collector {warming.name}"
        events.record("reports", text, level=logging.INFO, logger="lbdns.collector")


class _WarmUp:
    """Adopts the parts of a reply."""

    def __init__(self, collector: Collector, receiver: SnapshotReceiver) -> None:
        self._collector, self.receiver = collector, receiver
        self.done = asyncio.Event()  # set when the whole snapshot has arrived, or when there is none
        self.name, self.members = "", 0

    async def receive(self, message: Msg) -> None:
        if not message.data:  # the server says that no collector subscribes to requests
            self.done.set()
            return
        part = self.receiver.take(message.data, time.monotonic(), time.time())
        if part is None:
            return
        farm, table = self._collector.farm, self._collector.table
        known = {member for host in farm.hosts.values() for member in host.members} | set(farm.agentless)
        self.members += adopt(table, part, known)
        self.name = part.collector
        self._collector.deliver_changes()
        if part.is_last:
            self.done.set()


def adopt(table: ReportTable, part: SnapshotMessage, known: set[str]) -> int:
    """Add the readings of ``part`` to ``table``, for those of the ``known`` members that have none, and the records.

    Return the number of added readings.
    """
    count = 0
    for name, (reading, _) in part.members.items():
        if name in known and table.reading(name) is None:
            table.replace(name, _scored(table, reading))
            count += 1
    valid = {name: record for name, record in part.records.items() if type(name) is str and is_host_name(name)}
    table.remember(valid, time.monotonic(), time.time())
    return count


def _scored(table: ReportTable, reading: Reading) -> Reading:
    """Return ``reading`` with this collector's score and longest interval."""
    if reading.score is None:
        return reading
    interval = min(reading.interval, table.max_interval)
    return dataclasses.replace(reading, interval=interval, score=table.score.of(reading.metrics))

"""Tests of the subscription to reports: batches, and what ends it."""

from __future__ import annotations

import asyncio

from nats.aio.client import Client
from nats.aio.msg import Msg

from lbdns.bus.bus_connection import BusConnection
from lbdns.events.event_log import EventLog
from lbdns.secrets.bus_access import BusAccess
from lbdns_collector.reports.bus_reports import BATCH, BusReports
from lbdns_shared.bus_subject import report_subject
from lbdns_shared.bus_url import parse_bus_url
from tests.collector.collector_fixtures import KEY, datagram
from tests.collector.report_tables import make


class Stage:
    """A subscription without a server, to which a test passes messages."""

    def __init__(self) -> None:
        self.events, self.changes = EventLog(), 0
        self.connection = BusConnection(self.events)
        self.table = make(KEY)
        self.reports = BusReports(self.connection, self.table, self._count, self.events)

    def _count(self) -> None:
        self.changes += 1

    async def receive(self, host: str, data: bytes) -> None:
        await self.reports._receive(Msg(Client(), report_subject("web", host), data=data))


async def test_reports_are_passed_on_in_one_batch() -> None:
    stage = Stage()
    stage.reports.start()
    await stage.receive("gandalf", fresh("gandalf"))
    await stage.receive("frodo", fresh("frodo"))
    assert stage.changes == 0
    await asyncio.sleep(0)
    assert stage.changes == 1
    assert set(stage.table.members()) == {"gandalf.hobbit", "frodo.hobbit"}


async def test_a_full_batch_does_not_wait() -> None:
    stage = Stage()
    stage.reports.start()
    for _ in range(BATCH):
        await stage.receive("gandalf", b"garbage")
    assert stage.table.counts["malformed"] == BATCH
    assert stage.changes == 0
    assert len(stage.events.newest(10)) == 1, "the first of them is recorded"


async def test_an_ended_subscription_processes_what_has_arrived() -> None:
    stage = Stage()
    stage.reports.start()
    await stage.receive("gandalf", fresh("gandalf"))
    stage.reports.stop()
    assert stage.changes == 1
    await stage.receive("frodo", fresh("frodo"))
    await asyncio.sleep(0)
    assert set(stage.table.members()) == {"gandalf.hobbit"}


async def test_the_status_shows_a_configured_bus_only() -> None:
    stage = Stage()
    stage.reports.reconfigure(())
    assert stage.table.bus is None
    stage.connection.use(BusAccess((parse_bus_url("nats://127.0.0.1:1"),)))
    stage.reports.reconfigure(())
    status = stage.table.bus
    assert status
    assert status.document()["problem"] == "not connected yet"
    stage.reports.reconfigure(())
    assert stage.table.bus is status, "the counters go on"
    stage.connection.use(None)
    stage.reports.reconfigure(())
    assert stage.table.bus is None
    await stage.connection.stop()


def fresh(host: str) -> bytes:
    """Return a report that the real clock accepts."""
    import time

    return datagram(host, at=time.time())


async def test_other_pools_change_only_what_has_to_change() -> None:
    stage = Stage()
    stage.reports.reconfigure(("web",))
    assert subjects(stage) == []
    stage.reports.start()
    assert subjects(stage) == ["lbdns.report.web.>"]
    kept = stage.connection._subscriptions[0]
    stage.reports.reconfigure(("shop", "web"))
    assert subjects(stage) == ["lbdns.report.web.>", "lbdns.report.shop.>"]
    assert stage.connection._subscriptions[0] is kept
    stage.reports.reconfigure(("shop",))
    assert subjects(stage) == ["lbdns.report.shop.>"]
    stage.reports.stop()
    assert subjects(stage) == []
    stage.reports.reconfigure(())
    assert subjects(stage) == []
    stage.reports.start()
    assert subjects(stage) == ["lbdns.report.>"]


def subjects(stage: Stage) -> list[str]:
    return [subscription.subject for subscription in stage.connection._subscriptions]

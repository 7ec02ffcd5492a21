"""Tests of the program's connection to a bus, with a real nats-server."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbdns.bus.bus_connection import BusConnection, BusError
from lbdns.events.event_log import EventLog
from lbdns.secrets.bus_access import BusAccess
from lbdns_shared.bus_url import parse_bus_url
from lbdns_tools.free_ports import free_ports
from lbdns_tools.nats_servers import COLLECTOR
from tests.bus.bus_fixtures import access, connected, until
from tests.end_to_end.nats_bus import new_bus, serving_bus
from tests.needs import needs

if TYPE_CHECKING:
    from nats.aio.msg import Msg

pytestmark = needs(programs=("nats-server",))


class Inbox:
    """Keeps the payloads of received messages."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    async def receive(self, message: Msg) -> None:
        self.payloads.append(message.data)


async def test_messages_reach_all_subscriptions(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    early, late, other = Inbox(), Inbox(), Inbox()
    with serving_bus(bus):
        connection = BusConnection(EventLog())
        connection.subscribe("a.*", early.receive)  # before there is a connection
        connection.use(access(bus))
        await until(lambda: connection.state.connected, "the connection is up")
        subscription = connection.subscribe("a.b", late.receive)
        connection.subscribe("c", other.receive)
        async with connected(bus) as sender:
            while not late.payloads:  # the server may not have the subscription yet
                await sender.publish("a.b", b"1")
                await asyncio.sleep(0.01)
            await until(lambda: b"1" in early.payloads, "the first subscription receives it too")
            client = connection.client
            assert client
            assert len(client._subs) == 3
            subscription.end()
            subscription.end()  # does nothing
            await until(lambda: len(client._subs) == 2, "the subscription ends")
            await client.flush()
            late.payloads.clear()
            await sender.publish("a.b", b"2")
            await until(lambda: b"2" in early.payloads, "the other subscription lasts")
            await client.flush()
            assert (late.payloads, other.payloads) == ([], [])
        await connection.stop()


async def test_subscriptions_outlast_a_killed_server(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    inbox, events, states = Inbox(), EventLog(), list[bool]()
    with contextlib.ExitStack() as first:
        nats = first.enter_context(serving_bus(bus))
        async with connected(bus, events=events) as connection:
            connection.subscribe("a", inbox.receive)
            connection.watch(lambda: states.append(connection.state.connected))
            before = connection.client
            nats.stop(signal.SIGKILL)
            await until(lambda: not connection.state.connected, "the loss is noticed")
            assert any("nothing arrives from the bus" in event.text for event in events.newest(10))
            with pytest.raises(BusError):
                await connection.publish("a", b"lost")
            with serving_bus(bus):
                await until(lambda: connection.state.connected, "the connection is up again")
                assert connection.client is not before
                await connection.publish("a", b"found")
                await until(lambda: inbox.payloads == [b"found"], "the subscription lasts")
                assert not states[0]
                assert [state for state in states if state] == [True]
                assert [event.level for event in events.newest(10)].count("info") == 2


async def test_a_refused_subscription(tmp_path: Path) -> None:
    """The collector's user may subscribe to reports only, and publish nothing."""
    bus = new_bus(tmp_path)
    events, inbox = EventLog(), Inbox()
    with serving_bus(bus):
        async with connected(bus, COLLECTOR, events) as connection:
            connection.subscribe("lbdns.Other", inbox.receive)
            text = "the server refuses the subscription"
            await until(lambda: any(text in event.text for event in events.newest(10)), "the refusal is recorded")
            await connection.publish("lbdns.other", b"")
            text = "the server refuses messages of this program"
            await until(lambda: any(text in event.text for event in events.newest(10)), "the refusal is recorded")
            assert connection.state.connected
            connection.subscribe("lbdns.required", inbox.receive, required=True)
            await until(lambda: "refuses the subscription" in connection.state.problem, "the connection is closed")
            assert not connection.state.connected


async def test_a_reload_connects_to_other_servers(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    with serving_bus(bus):
        async with connected(bus) as connection:
            client = connection.client
            connection.use(access(bus))
            assert connection.client is client
            connection.use(access(bus, password="wrong"))
            assert not connection.state.connected
            await until(lambda: "refuses the credentials" in connection.state.problem, "the password is used")
            connection.use(access(bus))
            await until(lambda: connection.state.connected, "the connection is up again")
            connection.use(None)
            assert (connection.state.connected, connection.is_configured) == (False, False)
            with pytest.raises(BusError, match="no section"):
                await connection.publish("a", b"")


async def test_the_next_server_is_tried(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    nowhere = parse_bus_url(f"nats://127.0.0.1:{free_ports(1)[0]}")
    with serving_bus(bus):
        connection = BusConnection(EventLog())
        connection.use(BusAccess((nowhere, *access(bus).servers)))
        await until(lambda: connection.state.connected, "the other server is used")
        assert str(bus.port) in connection.state.server
        await connection.stop()

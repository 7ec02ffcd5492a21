"""Connections to a real nats-server, for tests in the test's event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from lbdns.bus.bus_connection import BusConnection
from lbdns.events.event_log import EventLog
from lbdns.secrets.bus_access import BusAccess
from lbdns_shared.bus_url import parse_bus_url
from lbdns_tools.nats_servers import WIDE
from tests.end_to_end.nats_bus import Bus


def access(bus: Bus, user: str = WIDE, password: str = "") -> BusAccess:
    return BusAccess((parse_bus_url(bus.url(user, password)),), nkey=bus.nkeys.get(user))


async def until(condition: Callable[[], object], what: str, longest: float = 30.0) -> None:
    """Wait until ``condition`` is true. Raises AssertionError after ``longest`` seconds."""
    end = asyncio.get_running_loop().time() + longest
    while not condition():
        assert asyncio.get_running_loop().time() < end, what
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def connected(bus: Bus, user: str = WIDE, events: EventLog | None = None) -> AsyncIterator[BusConnection]:
    """Yield a connection that is up."""
    connection = BusConnection(events or EventLog())
    connection.use(access(bus, user))
    try:
        await until(lambda: connection.state.connected, "the connection is up")
        yield connection
    finally:
        await connection.stop()

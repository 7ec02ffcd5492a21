"""HTTP connections: their number is limited, and an idle one is closed if a new one needs its place."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from lbdns_collector.web.stream_queue import MAX_STREAMS

MAX_CONNECTIONS: Final = MAX_STREAMS + 64  # each takes 10 to 50 kB
IDLE: Final = 2.0  # seconds after the last begin or end of a request; then a new connection may replace this one
POLL_PERIOD: Final = 0.05  # seconds between two checks for an idle connection while a new one waits


class HttpConnections:
    """The connections of one server, and when each last began or ended a request."""

    def __init__(self) -> None:
        self._active: dict[RequestHandler, float] = {}  # monotonic seconds; inf for an event stream

    def __len__(self) -> int:
        return len(self._active)

    def keep(self, server: web.Server, fresh: RequestHandler) -> None:
        """Record a new connection, and forget closed ones."""
        self._active[fresh] = time.monotonic()
        self.forget_ended(server)

    def forget_ended(self, server: web.Server) -> None:
        """Forget closed connections."""
        living = set(server.connections)
        self._active = {protocol: at for protocol, at in self._active.items() if protocol in living}

    def touch(self, protocol: RequestHandler) -> None:
        """Record that a connection began or ended a request."""
        if protocol in self._active:
            self._active[protocol] = time.monotonic()

    def is_stream(self, protocol: RequestHandler) -> None:
        """Mark the connection of an event stream, which never counts as idle."""
        if protocol in self._active:
            self._active[protocol] = math.inf

    async def room(self, server: web.Server) -> None:
        """Wait until there is room for one more connection."""
        while len(server.connections) >= MAX_CONNECTIONS:
            self.forget_ended(server)
            oldest = min(self._active, key=self._active.__getitem__, default=None)
            if oldest and oldest.transport and self._active[oldest] < time.monotonic() - IDLE:
                oldest.transport.abort()
            await asyncio.sleep(POLL_PERIOD)

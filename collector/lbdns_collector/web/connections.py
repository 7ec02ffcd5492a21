"""The connections of readers: a bounded number, of which those that stand idle give way to new ones."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from lbdns_collector.web.streams import MAX_STREAMS

MAX_CONNECTIONS: Final = MAX_STREAMS + 64  # each takes 10 to 50 kB
IDLE: Final = 2.0  # seconds without a request, or in the same one, after which a connection gives way ...
LOOK: Final = 0.05  # ... and from one look for such a one to the next, while a new one waits


class Connections:
    """Those of one server, and when each last began or ended a request."""

    def __init__(self) -> None:
        self._active: dict[RequestHandler, float] = {}  # monotonic seconds; inf for an event stream

    def __len__(self) -> int:
        return len(self._active)

    def keep(self, server: web.Server, fresh: RequestHandler) -> None:
        """Remember a connection that was made, and forget those that have ended."""
        self._active[fresh] = time.monotonic()
        self.forget_ended(server)

    def forget_ended(self, server: web.Server) -> None:
        living = set(server.connections)
        self._active = {protocol: at for protocol, at in self._active.items() if protocol in living}

    def touch(self, protocol: RequestHandler) -> None:
        if protocol in self._active:
            self._active[protocol] = time.monotonic()

    def is_stream(self, protocol: RequestHandler) -> None:
        """This one is in one request for ever."""
        if protocol in self._active:
            self._active[protocol] = math.inf

    async def room(self, server: web.Server) -> None:
        """Wait until there is room for one more."""
        while len(server.connections) >= MAX_CONNECTIONS:
            self.forget_ended(server)
            oldest = min(self._active, key=self._active.__getitem__, default=None)
            if oldest and oldest.transport and self._active[oldest] < time.monotonic() - IDLE:
                oldest.transport.abort()
            await asyncio.sleep(LOOK)

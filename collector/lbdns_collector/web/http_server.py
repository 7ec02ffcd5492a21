"""The HTTP server: serves the application on one socket.

The server accepts connections one at a time, and limits the number of open connections. At the limit, the server closes
an idle connection to make room for a new one. On shutdown, the server does not wait for clients.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from lbdns.process.background_task import end_task
from lbdns.sockets.binding import bound_endpoint
from lbdns_collector.web.app_keys import SCHEDULER
from lbdns_collector.web.event_hub import MAX_STREAMS
from lbdns_shared.endpoint import Endpoint

log = logging.getLogger("lbdns.web")

SHUTDOWN: Final = 0.5  # seconds to wait for a client that does not read
REQUEST_WITHIN: Final = 20.0  # seconds from connecting, or from the previous response, to the end of a request's head
LINGERING: Final = 1.0  # seconds to read and discard the body of a refused request
MAX_LINE: Final = 4096  # bytes; a path with its query string
MAX_HEADERS: Final = 64
CONNECTION_COST: Final = 0.0008  # seconds of CPU time to accept and close a connection, measured like REQUEST_COST
NO_MORE: Final = 1.0  # seconds before the next attempt if no descriptor or memory is left
MAX_CONNECTIONS: Final = MAX_STREAMS + 64  # each takes 10 to 50 kB
IDLE: Final = 2.0  # seconds without the start or end of a request, after which a new connection may replace an old one
ROOM_CHECK_PERIOD: Final = 0.05  # seconds between two checks for an idle connection while a new one waits


class HttpConnections:
    """The connections of one server, and when a request last began or ended on each connection."""

    def __init__(self) -> None:
        self._active: dict[RequestHandler, float] = {}  # monotonic seconds; inf for an event stream

    def keep(self, server: web.Server, fresh: RequestHandler) -> None:
        """Record a new connection, and forget closed connections."""
        self._active[fresh] = time.monotonic()
        self.forget_ended(server)

    def forget_ended(self, server: web.Server) -> None:
        living = set(server.connections)
        self._active = {protocol: at for protocol, at in self._active.items() if protocol in living}

    def touch(self, protocol: RequestHandler) -> None:
        """Record that a request has begun or ended on a connection."""
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
            await asyncio.sleep(ROOM_CHECK_PERIOD)


CONNECTIONS: Final = web.AppKey("connections", HttpConnections)


class HttpServer:
    """Serves one application on a listening socket, and closes the socket when the server stops."""

    def __init__(self, app: web.Application, endpoint: Endpoint, sock: socket.socket) -> None:
        self.configured = self.address = endpoint
        self.sock = sock
        self._app = app
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=SHUTDOWN,
            keepalive_timeout=REQUEST_WITHIN,
            lingering_time=LINGERING,
            max_line_size=MAX_LINE,
            max_headers=MAX_HEADERS,
        )
        self._accepting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen and accept connections. Raises ListenError."""
        await self.set_up()
        self.accept()

    async def set_up(self) -> None:
        """Listen on the socket; connections wait until ``accept`` is called.

        Sets ``address`` to the actual address and port, even if port 0 was configured. Raises ListenError after closing
        the socket.
        """
        self.sock.setblocking(False)
        self.address = bound_endpoint(self.sock)
        try:
            await self._runner.setup()
        except BaseException:
            self.sock.close()
            raise

    def accept(self) -> None:
        """Start accepting connections. Call this method once, after ``set_up``."""
        self._accepting = asyncio.get_running_loop().create_task(self._accept())
        log.info("serving http://%s/", self.address)

    async def stop(self) -> None:
        """Close every connection, including open event streams."""
        await end_task(self._accepting)
        self._accepting = None
        self.sock.close()
        await self._runner.cleanup()

    async def _accept(self) -> None:
        # One by one, each in its scheduled turn: the others wait in the kernel, where they cost nothing
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self.sock)
            except OSError as error:
                log.warning("%s: cannot accept a connection: %s", self.address, error.strerror)
                await asyncio.sleep(NO_MORE)
                continue
            try:
                await self._serve(connection)
            except OSError:
                connection.close()  # the client has already disconnected
            except BaseException:
                connection.close()
                raise

    async def _serve(self, connection: socket.socket) -> None:
        server = self._runner.server
        assert server is not None, "set_up must be called before accept"
        connections = self._app[CONNECTIONS]
        await connections.room(server)
        async with self._app[SCHEDULER].turn("connection", CONNECTION_COST):
            pass
        _, protocol = await asyncio.get_running_loop().connect_accepted_socket(server, connection)
        connections.keep(server, protocol)

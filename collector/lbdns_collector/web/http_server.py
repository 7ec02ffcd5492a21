"""The HTTP server: serves the application on one socket, accepts connections in turn, and stops without waiting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Final

from aiohttp import web

from lbdns.sockets.binding import bound_endpoint
from lbdns_collector.web.app_keys import CONNECTIONS, SCHEDULER
from lbdns_shared.endpoint import Endpoint

log = logging.getLogger("lbdns.web")

SHUTDOWN: Final = 0.5  # seconds to wait for a client that does not read
REQUEST_WITHIN: Final = 20.0  # seconds from a connection, or the previous response, to the end of a request's head
LINGERING: Final = 1.0  # seconds to read and discard the body of a refused request
MAX_LINE: Final = 4096  # bytes; a path with its query string
MAX_HEADERS: Final = 64
CONNECTION_COST: Final = 0.0008  # seconds of CPU time to accept and close a connection, measured like REQUEST_COST
NO_MORE: Final = 1.0  # seconds before the next attempt if no descriptor or memory is left


class HttpServer:
    """Serves one application on a listening socket, which it closes at the end."""

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

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._runner.server.connections) if self._runner.server else 0

    async def start(self) -> None:
        """Listen and accept connections. Raises ListenError."""
        await self.set_up()
        self.accept()

    async def set_up(self) -> None:
        """Listen on the socket; connections wait until ``accept`` is called. Raises ListenError; the server then holds
        no socket. ``address`` then has the real port, even if port 0 was configured."""
        self.sock.setblocking(False)
        self.address = bound_endpoint(self.sock)
        try:
            await self._runner.setup()
        except BaseException:
            self.sock.close()
            raise

    def accept(self) -> None:
        """Start accepting connections. Call it once, after ``set_up``."""
        self._accepting = asyncio.get_running_loop().create_task(self._accept())
        log.info("serving http://%s/", self.address)

    async def stop(self) -> None:
        """Close every connection, including open event streams."""
        if self._accepting is not None:
            self._accepting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._accepting
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
        assert server is not None, "set up before anything is accepted"
        connections = self._app[CONNECTIONS]
        await connections.room(server)
        async with self._app[SCHEDULER].turn("connection", CONNECTION_COST):
            pass
        _, protocol = await asyncio.get_running_loop().connect_accepted_socket(server, connection)
        connections.keep(server, protocol)

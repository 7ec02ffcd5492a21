"""Serving a web application on one address, with errors a person can act on, connections that wait their turn, and a
stop that doesn't wait."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Final

from aiohttp import web

from lbdns.endpoint import Endpoint
from lbdns.listening import bound_endpoint
from lbdns_collector.pages import open_socket
from lbdns_collector.web.keys import CONNECTIONS, GATE

log = logging.getLogger("lbdns.web")

SHUTDOWN: Final = 0.5  # seconds a reader who doesn't read is waited for
REQUEST_WITHIN: Final = 20.0  # seconds from a connection, or the last response, to the end of a request's head
LINGERING: Final = 1.0  # seconds that the body of a request that nobody wants is read for
MAX_LINE: Final = 4096  # bytes; a path with its arguments
MAX_HEADERS: Final = 64
CONNECTION_COST: Final = 0.0008  # seconds of CPU time for a connection's begin and end, measured as REQUEST_COST
NO_MORE: Final = 1.0  # seconds after which a connection is tried again that there was no descriptor or memory for


class WebServer:
    """One application on one address, or on a socket that listens there already and is closed with the server."""

    def __init__(self, app: web.Application, endpoint: Endpoint, sock: socket.socket | None = None) -> None:
        self.asked = self.address = endpoint
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
        """How many are open."""
        return len(self._runner.server.connections) if self._runner.server else 0

    async def start(self) -> None:
        """Listen. Raises ListenError. ``address`` is then the real one, where port 0 was asked for."""
        self.sock = self.sock or open_socket(self.asked)
        self.sock.setblocking(False)
        self.address = bound_endpoint(self.sock)
        try:
            await self._runner.setup()
        except BaseException:
            self.sock.close()
            raise
        self._accepting = asyncio.get_running_loop().create_task(self._accept(self.sock))
        log.info("serving http://%s/", self.address)

    async def stop(self) -> None:
        """End every connection, open event streams too."""
        if self._accepting is not None:
            self._accepting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._accepting
            self._accepting = None
        if self.sock is not None:
            self.sock.close()
        await self._runner.cleanup()

    async def _accept(self, sock: socket.socket) -> None:
        """Take connections one by one, each at its turn: others wait in the kernel, and cost nothing there."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(sock)
            except OSError as error:
                log.warning("%s: no connection can be taken: %s", self.address, error.strerror)
                await asyncio.sleep(NO_MORE)
                continue
            try:
                await self._serve(connection)
            except OSError:
                connection.close()  # it has ended already
            except BaseException:
                connection.close()
                raise

    async def _serve(self, connection: socket.socket) -> None:
        server = self._runner.server
        assert server is not None, "set up before anything is accepted"
        connections = self._app[CONNECTIONS]
        await connections.room(server)
        async with self._app[GATE].turn("connection", CONNECTION_COST):
            pass
        _, protocol = await asyncio.get_running_loop().connect_accepted_socket(server, connection)
        connections.keep(server, protocol)

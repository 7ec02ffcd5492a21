"""The web server of a program: opened late, because reading its libraries in takes longer than all the rest, and
moved to another address without closing the old one first."""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
from typing import TYPE_CHECKING, Final

from lbdns.config.web import WebConfig
from lbdns.endpoint import Endpoint
from lbdns.http_credentials import read_credentials
from lbdns.listening import bind
from lbdns_collector.readers import Readers

if TYPE_CHECKING:
    from lbdns_collector.web.server import WebServer
    from lbdns_collector.web.source import StatusSource

log = logging.getLogger("lbdns.web")

BACKLOG: Final = 128
OFF: Final = WebConfig(listen=None)


def open_socket(endpoint: Endpoint) -> socket.socket:
    """A listening socket for pages. Raises ListenError."""
    return bind(endpoint, socket.SOCK_STREAM, "web", '[web] listen, or "off"', backlog=BACKLOG)


class Pages:
    """Serves the pages of ``source`` at one address, to those who may read, or nowhere."""

    def __init__(self, source: StatusSource) -> None:
        self._source = source
        self._readers = Readers()
        self._asked: Endpoint | None = None
        self._server: WebServer | None = None

    @property
    def address(self) -> Endpoint | None:
        """Where the pages are, with the real port; None if nowhere."""
        return self._server.address if self._server else None

    def duplicate(self) -> tuple[Endpoint, socket.socket] | None:
        """The listening socket for another process, with the address that was asked for; None if there is none."""
        if self._server is None or self._server.sock is None:
            return None
        return self._server.asked, self._server.sock.dup()

    async def serve_at(self, web: WebConfig, sock: socket.socket | None = None) -> None:
        """Serve as ``web`` says from now on, on ``sock`` if it is open already. Raises ListenError, and ConfigError for
        files of secrets that can't be read; then everything is as it was."""
        credentials, warnings = read_credentials(web)
        before = self._readers.allow, self._readers.credentials
        # Before there is an address that others reach
        self._readers.allow, self._readers.credentials = web.allow, credentials
        if web.listen != self._asked:
            try:
                fresh = await self._open(web.listen, sock or open_socket(web.listen)) if web.listen else None
            except BaseException:
                self._readers.allow, self._readers.credentials = before
                raise
            old, self._server, self._asked = self._server, fresh, web.listen
            if old:
                await old.stop()
        for warning in warnings:
            log.warning(warning)

    async def stop(self) -> None:
        await self.serve_at(OFF)

    async def _open(self, endpoint: Endpoint, sock: socket.socket) -> WebServer:
        # In a thread: meanwhile queries are answered and reports are read
        app = await asyncio.to_thread(importlib.import_module, "lbdns_collector.web.app")
        server = await asyncio.to_thread(importlib.import_module, "lbdns_collector.web.server")
        web: WebServer = server.WebServer(app.make_app(self._source, self._readers), endpoint, sock)
        await web.start()
        return web

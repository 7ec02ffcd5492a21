"""The web interface of a program: starts an HTTP server, and moves it to a new address on reload.

The HTTP server's libraries are loaded late, because loading them takes longer than the rest of the startup. The socket
for a new address is opened before the old socket is closed.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
from typing import TYPE_CHECKING, Final

from lbdns.config.web_section import WebConfig
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.process.apply_configuration import PreparedChange, commit_all
from lbdns.secrets.http_credentials import read_credentials
from lbdns.secrets.tls_certificate import server_context
from lbdns.sockets.binding import bind
from lbdns_collector.web.access_control import AccessControl
from lbdns_shared.endpoint import Endpoint

if TYPE_CHECKING:
    from lbdns_collector.status.status_source import StatusSource
    from lbdns_collector.web.http_server import HttpServer

log = logging.getLogger("lbdns.web")

BACKLOG: Final = 4096  # as many as Linux permits by default (net.core.somaxconn)
OFF: Final = WebConfig(listen=None)


def open_web_socket(endpoint: Endpoint) -> socket.socket:
    """Return a listening socket. Raises ListenError."""
    return bind(endpoint, socket.SOCK_STREAM, "web", '[web] listen (or set it to "off")', backlog=BACKLOG)


class WebInterface:
    """A web interface that serves the documents and pages of ``source`` to permitted clients at one address.

    If ``[web] listen`` is "off", no HTTP server runs.
    """

    def __init__(self, source: StatusSource) -> None:
        self._source = source
        self._access = AccessControl()
        self._configured: Endpoint | None = None
        self._server: HttpServer | None = None

    @property
    def address(self) -> Endpoint | None:
        """The address in use with the actual port, or None if the interface is off."""
        return self._server.address if self._server else None

    def duplicate(self) -> tuple[Endpoint, socket.socket] | None:
        """Return the configured address and a duplicate socket for another process, or None if the interface is off."""
        if self._server is None:
            return None
        return self._server.configured, self._server.sock.dup()

    async def start(self, web: WebConfig, sock: socket.socket | None = None) -> None:
        """Serve the pages as configured in ``web``.

        If ``sock`` is given, it must already listen on the configured address.

        Raises ListenError if the address is not available, or ConfigError if a file that ``[web]`` names cannot be
        used.
        """
        await commit_all([await self._prepare(web, sock)])

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        """Return a change that applies the address and access rules in ``new``.

        This method opens the socket for a new address. New connections wait until the change is committed. Raises
        ListenError if the address is not available, and ConfigError if a file that ``[web]`` names cannot be used.
        """
        return await self._prepare(new.farm.config.web)

    async def stop(self) -> None:
        await self.start(OFF)

    async def _prepare(self, web: WebConfig, sock: socket.socket | None = None) -> PreparedChange:
        credentials, warnings = read_credentials(web)
        tls, more = await asyncio.to_thread(server_context, web)
        old, fresh = self._server, self._server
        if web.listen != self._configured:
            fresh = await self._set_up(web.listen, sock or open_web_socket(web.listen)) if web.listen else None

        def commit() -> None:
            # Set before the new server accepts connections
            self._access.apply(web, credentials, tls)
            self._server, self._configured = fresh, web.listen
            for warning in (*warnings, *more):
                log.warning(warning)

        async def finish() -> None:
            if fresh and fresh is old:
                fresh.follow_scheme()
            elif fresh:
                fresh.accept()
            if old and fresh is not old:
                await old.stop()

        async def rollback() -> None:
            if fresh and fresh is not old:
                await fresh.stop()

        return PreparedChange("web pages", commit, finish, rollback)

    async def _set_up(self, endpoint: Endpoint, sock: socket.socket) -> HttpServer:
        # In a thread: meanwhile, queries are answered and reports are read
        app = await asyncio.to_thread(importlib.import_module, "lbdns_collector.web.app")
        server = await asyncio.to_thread(importlib.import_module, "lbdns_collector.web.http_server")
        web: HttpServer = server.HttpServer(app.make_app(self._source, self._access), endpoint, sock)
        await web.set_up()
        return web

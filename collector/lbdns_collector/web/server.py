"""Serving a web application on one address, with errors a person can act on and a stop that doesn't wait."""

from __future__ import annotations

import logging
import socket
from typing import Final

from aiohttp import web

from lbdns.endpoint import Endpoint
from lbdns.listening import bound_endpoint
from lbdns_collector.pages import BACKLOG, open_socket

log = logging.getLogger("lbdns.web")

SHUTDOWN: Final = 0.5  # seconds a reader who doesn't read is waited for


class WebServer:
    """One application on one address, or on a socket that listens there already and is closed with the server."""

    def __init__(self, app: web.Application, endpoint: Endpoint, sock: socket.socket | None = None) -> None:
        self.asked = self.address = endpoint
        self.sock = sock
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN)

    async def start(self) -> None:
        """Listen. Raises ListenError. ``address`` is then the real one, where port 0 was asked for."""
        self.sock = self.sock or open_socket(self.asked)
        self.address = bound_endpoint(self.sock)
        try:
            await self._runner.setup()
            await web.SockSite(self._runner, self.sock, backlog=BACKLOG).start()
        except BaseException:
            self.sock.close()
            raise
        log.info("serving http://%s/", self.address)

    async def stop(self) -> None:
        """End every connection, open event streams too."""
        await self._runner.cleanup()

"""Serving a web application on one address, with errors a person can act on and a stop that doesn't wait."""

from __future__ import annotations

import logging
import socket
from typing import Final

from aiohttp import web

from lbdns.endpoint import Endpoint
from lbdns.listening import bind, bound_endpoint

log = logging.getLogger("lbdns.web")

SHUTDOWN: Final = 0.5  # seconds a reader who doesn't read is waited for
BACKLOG: Final = 128


class WebServer:
    """One application on one address."""

    def __init__(self, app: web.Application, endpoint: Endpoint) -> None:
        self.asked = self.address = endpoint
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN)

    async def start(self) -> None:
        """Listen. Raises ListenError. ``address`` is then the real one, where port 0 was asked for."""
        sock = bind(self.asked, socket.SOCK_STREAM, "web", '[web] listen, or "off"', backlog=BACKLOG)
        self.address = bound_endpoint(sock)
        try:
            await self._runner.setup()
            await web.SockSite(self._runner, sock, backlog=BACKLOG).start()
        except BaseException:
            sock.close()
            raise
        log.info("serving http://%s/", self.address)

    async def stop(self) -> None:
        """End every connection, open event streams too."""
        await self._runner.cleanup()

"""Serving a web application on one address, with errors a person can act on and a stop that doesn't wait."""

from __future__ import annotations

import logging
import os
import socket
from typing import Final

from aiohttp import web

from lbdns.endpoint import Endpoint
from lbdns.errors import ListenError

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
        sock = _listen(self.asked)
        host, port = sock.getsockname()[:2]
        self.address = Endpoint(host, port)
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


def _listen(endpoint: Endpoint) -> socket.socket:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ListenError(f"web: {endpoint}: {os.strerror(error.errno or 0)}") from None
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(socket.getaddrinfo(endpoint.host, endpoint.port, family, socket.SOCK_STREAM)[0][4])
        # Here already, not by the event loop: of two programs that bound the port at once one finds out only now
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ListenError(_explain(endpoint, error)) from None
    return sock


def _explain(endpoint: Endpoint, error: OSError) -> str:
    match error:
        case PermissionError():
            what = "not permitted. Ports below 1024 need root or CAP_NET_BIND_SERVICE"
        case OSError(errno=98):
            what = f"taken. 'ss -ltnp sport = :{endpoint.port}' shows by whom; or set another [web] listen, or \"off\""
        case OSError(errno=99):
            what = "is no address of this machine. 'ip address' lists them; or set another [web] listen"
        case _:
            what = str(error.strerror or error)
    return f"web: {endpoint}: {what}"

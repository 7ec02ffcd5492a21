"""The HTTP server, which serves the HTTP application on one socket.

On shutdown, the server does not wait for clients.
"""

from __future__ import annotations

import logging
import socket
from typing import Final

from aiohttp import web

from lbdns.sockets.binding import bound_endpoint
from lbdns_collector.web.app_keys import ACCESS, SCHEDULER
from lbdns_collector.web.connection_gate import ConnectionGate
from lbdns_collector.web.protocol_errors import protocol_error_logger
from lbdns_shared.endpoint import Endpoint

log = logging.getLogger("lbdns.web")

SHUTDOWN: Final = 0.5  # seconds to wait for a client that does not read
LINGERING: Final = 1.0  # seconds to read and discard the body of a refused request
MAX_LINE: Final = 4096  # bytes; a path with its query string
MAX_HEADERS: Final = 64
DAY: Final = 86400.0  # seconds


class HttpServer:
    """A server for one HTTP application on a listening socket. When the server stops, it closes the socket."""

    def __init__(self, app: web.Application, endpoint: Endpoint, sock: socket.socket) -> None:
        self.configured = self.address = endpoint
        self.sock = sock
        self._access, self._scheme = app[ACCESS], ""
        self.gate = ConnectionGate(sock, self._access, app[SCHEDULER])
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=protocol_error_logger(app[ACCESS]),
            handle_signals=False,
            shutdown_timeout=SHUTDOWN,
            keepalive_timeout=DAY,  # the gate's connections have shorter deadlines of their own
            lingering_time=LINGERING,
            max_line_size=MAX_LINE,
            max_headers=MAX_HEADERS,
        )

    async def start(self) -> None:
        """Listen and accept connections. Raises ListenError."""
        await self.set_up()
        self.accept()

    async def set_up(self) -> None:
        """Listen on the socket. Connections wait until ``accept`` is called.

        Sets ``address`` to the actual address and port, even if port 0 was configured. If the server cannot listen, the
        method closes the socket and raises ListenError.
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
        server = self._runner.server
        assert server is not None, "set_up must be called before accept"
        self.gate.start(server)
        self._announce()

    def follow_scheme(self) -> None:
        """If the scheme has changed from HTTP to HTTPS or back, close every connection."""
        if self._scheme != self._access.scheme:
            self.gate.limits.close_all()
            self._announce()

    def _announce(self) -> None:
        self._scheme = self._access.scheme
        log.info("serving %s://%s/", self._scheme, self.address)

    async def stop(self) -> None:
        """Close every connection, including open event streams."""
        await self.gate.stop()
        self.sock.close()
        await self._runner.cleanup()

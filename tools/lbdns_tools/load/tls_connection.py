"""The load generator's TLS connections, which perform a full handshake each."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.epoll_loop import READ, WRITE
from lbdns_tools.load.http_connection import HttpConnection, RequestError
from lbdns_tools.load.http_response import HttpResponse

if TYPE_CHECKING:
    from lbdns_tools.load.http_connection import LoadConnections

_PIECE: Final = 65_536  # bytes read at a time


def tls_context(ca_file: Path | None, insecure: bool) -> ssl.SSLContext:
    """Return the settings of TLS connections.

    The certificates in ``ca_file`` are trusted instead of the system's. If ``insecure`` is set, servers' certificates
    are not verified. Raises ConfigError if ``ca_file`` is not valid.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise ConfigError(f"--ca-file: {ca_file}: the file contains no valid certificate in PEM format") from None
    except OSError as error:
        raise ConfigError(f"--ca-file: {ca_file}: cannot read the file: {error.strerror}") from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class TlsConnection(HttpConnection):
    """An HTTP connection over TLS. ``host`` is the name that the server's certificate must contain."""

    __slots__ = ("_context", "_host", "_secure")

    def __init__(
        self, sockets: LoadConnections, sock: socket.socket, address: str, port: int, context: ssl.SSLContext, host: str
    ) -> None:
        super().__init__(sockets, sock, address, port)
        self._context, self._host = context, host
        self._secure: ssl.SSLSocket | None = None

    async def _send(self, request: bytes) -> None:
        """Send the request, after the handshake if the connection is new."""
        secure, rest = self._secure or await self._handshake(), request
        while rest:
            self.sent_at = self._loop.clock()
            try:
                rest = rest[secure.send(rest) :]
            except ssl.SSLError as error:
                await self._wait_for(error)

    async def _handshake(self) -> ssl.SSLSocket:
        await self.ready(WRITE)
        if code := self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, "connect")
        begin = self._loop.clock()
        self.connect_s = begin - self._began
        try:
            secure = self._context.wrap_socket(self._sock, do_handshake_on_connect=False, server_hostname=self._host)
        except ssl.SSLError as error:
            raise RequestError("protocol", f"TLS: {error}") from None
        self._sock = self._secure = secure
        while True:
            try:
                secure.do_handshake()
            except ssl.SSLError as error:
                await self._wait_for(error)
                continue
            self.tls_s = self._loop.clock() - begin
            return secure

    def _wait_for(self, error: ssl.SSLError) -> Awaitable[None]:
        """Wait for the event that TLS needs to continue. Raises RequestError if ``error`` is a failure."""
        if isinstance(error, (ssl.SSLWantReadError, ssl.SSLWantWriteError)):
            return self.ready(READ if isinstance(error, ssl.SSLWantReadError) else WRITE)
        if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            raise RequestError("reset", "the server closed the connection") from None
        raise RequestError("protocol", f"TLS: {error}") from None

    async def _receive(self, response: HttpResponse) -> bool:
        """Read a response, and return whether the server then closed the connection."""
        while True:
            try:
                data = self._sock.recv(_PIECE)
            except ssl.SSLError as error:
                await self._wait_for(error)
                continue
            if not data:
                self._end(response)
                return True
            if response.is_empty:
                self.first_byte_at = self._loop.clock()
            if response.feed(data):
                return False

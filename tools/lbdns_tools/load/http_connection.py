"""Opens, reuses and closes the load generator's HTTP connections, and sends requests over them."""

from __future__ import annotations

import errno
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Final

from lbdns_tools.load.epoll_loop import READ, WRITE, Deadlines, DescriptorWaiter, EpollLoop
from lbdns_tools.load.http_response import HttpResponse, ProtocolError

#: s; the side that closes first keeps the port for a minute (TIME_WAIT), so the server gets this time to close first
LINGER_S: Final = 1.0
_PIECE: Final = 65_536  # bytes read at a time, if they must be parsed
_BLIND: Final = 1 << 20  # bytes dropped at a time, if they need no parsing
_IP_BIND_ADDRESS_NO_PORT: Final = 24  # linux/in.h: choose the port at connect, separately per destination
#: Errors that this machine causes -> causes in request_tally.LOCAL_CAUSES
_OURS: Final = {
    errno.EADDRNOTAVAIL: "port",
    errno.EADDRINUSE: "port",
    errno.EMFILE: "descriptor",
    errno.ENFILE: "descriptor",
    errno.ENOBUFS: "memory",
    errno.ENOMEM: "memory",
}
_RESET: Final = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ENOTCONN}
_nowhere: Final = bytearray(_BLIND)  # MSG_TRUNC never writes to this buffer; its size limits what a call drops


class RequestError(Exception):
    """The exception for a failed request.

    ``kind`` is one of ``request_tally.ERRORS``. ``cause`` is one of ``request_tally.LOCAL_CAUSES`` if ``kind`` is
    "local".
    """

    def __init__(self, kind: str, detail: str, cause: str = "") -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.cause = kind, cause


class StaleError(Exception):
    """The exception raised if the server closes a reused connection before sending any byte of a response."""


class LoadConnections:
    """All connections of a process, including idle and closing connections, and their source addresses.

    If ``limit`` connections are open, a new connection replaces the one that has been idle longest. If none is idle,
    the limit is exceeded. A ``limit`` of 0 means no limit.
    """

    def __init__(self, loop: EpollLoop, keep_alive: bool, sources: Sequence[str] = (), limit: int = 0) -> None:
        self.loop, self.keep_alive, self.limit = loop, keep_alive, limit
        self.local: Counter[int] = Counter()  # failures on this machine, by errno
        self.open = 0
        self.idle: OrderedDict[HttpConnection, None] = OrderedDict()
        self.leaving = Deadlines(loop, LINGER_S, HttpConnection.close)
        self._sources: dict[bool, Callable[[], str]] = {}
        for is_ipv6 in (False, True):
            fitting = [source for source in sources if (":" in source) == is_ipv6]
            if fitting:
                self._sources[is_ipv6] = cycle(fitting).__next__

    def connect(self, address: str, port: int, secure: NewConnection | None = None) -> HttpConnection:
        """Start connecting to ``address`` and return the connection. Raises RequestError.

        ``secure`` creates the connection for a socket if TLS is used.
        """
        if self.limit and self.open >= self.limit and self.idle:
            next(iter(self.idle)).close()
        is_ipv6 = ":" in address
        family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except OSError as error:
            raise self.failure(error) from None
        try:
            if is_ipv6 in self._sources:
                sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
                sock.bind((self._sources[is_ipv6](), 0))
            code = sock.connect_ex((address, port))
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, "connect")
        except OSError as error:
            sock.close()
            raise self.failure(error) from None
        return (secure or HttpConnection)(self, sock, address, port)

    def failure(self, error: OSError) -> RequestError:
        """Return the RequestError for an OSError. Errors that this machine caused are also counted."""
        code = error.errno or 0
        if code in _OURS:
            self.local[code] += 1
            kind = "local"
        elif code in _RESET:
            kind = "reset"
        else:
            kind = "timeout" if code == errno.ETIMEDOUT else "refused"  # possibly by a router or a packet filter
        return RequestError(kind, errno.errorcode.get(code, str(error)), _OURS.get(code, ""))

    def close(self) -> None:
        for connection in (*self.idle, *self.leaving.under_way):
            connection.close()


class HttpConnection(DescriptorWaiter):
    """One HTTP connection.

    ``connect_s`` is the time taken to connect, in seconds. ``used`` is the number of responses received. ``sent_at``
    and ``first_byte_at`` are the times on the loop's clock at which the latest request was sent, and at which its
    response began to arrive. ``tls_s`` is the duration of the TLS handshake in seconds, or 0 without TLS.
    """

    __slots__ = (
        "_began", "_sock", "_sockets", "address", "connect_s", "first_byte_at", "is_open", "port", "sent_at", "tls_s",
        "used",
    )  # fmt: skip

    def __init__(self, sockets: LoadConnections, sock: socket.socket, address: str, port: int) -> None:
        super().__init__(sockets.loop, sock.fileno())
        self._sockets, self._sock = sockets, sock
        self.address, self.port = address, port
        self.is_open, self.used, self.connect_s = True, 0, 0.0
        self.sent_at = self.first_byte_at = self.tls_s = 0.0
        self._began = sockets.loop.clock()
        sockets.open += 1

    async def exchange(self, request: bytes, response: HttpResponse) -> None:
        """Send a request and read the whole response.

        When the method returns, the connection is idle, closing or closed. Raises RequestError, or StaleError if the
        server closed a reused connection before responding.
        """
        self._sockets.idle.pop(self, None)
        ended = True
        try:
            await self._send(request)
            ended = await self._receive(response)
        except OSError as error:
            if self.used and response.is_empty and error.errno in _RESET:
                raise StaleError from None
            raise self._sockets.failure(error) from None
        except ProtocolError as error:
            raise RequestError("protocol", str(error)) from None
        finally:
            if ended:
                self.close()
        self.used += 1
        if self._sockets.keep_alive and response.keeps and not ended:
            self._sockets.idle[self] = None
        elif not ended:
            self._await_end()

    @property
    def is_idle(self) -> bool:
        """Whether the connection is idle and can send another request."""
        return self in self._sockets.idle

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.release()
            self._sock.close()
            self._sockets.leaving.end(self)
            self._sockets.idle.pop(self, None)
            self._sockets.open -= 1

    def unexpected(self) -> None:
        """Close the idle connection, because the server has closed its end or has sent unexpected bytes."""
        self.close()

    async def _send(self, request: bytes) -> None:
        """Send the request immediately if possible. Over loopback, connections are established without delay."""
        clock, rest = self._loop.clock, request
        while True:
            before = clock()
            try:
                sent = self._sock.send(rest, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                await self.ready(WRITE)
                continue
            if not self.connect_s:
                self.connect_s = before - self._began
            if sent == len(rest):
                self.sent_at = before
                return
            rest = rest[sent:]

    async def _receive(self, response: HttpResponse) -> bool:
        """Read a response, and return whether the server then closed the connection."""
        recv, recv_into = self._sock.recv, self._sock.recv_into
        await self.ready(READ)
        self.first_byte_at = self._loop.clock()
        while True:
            try:
                while skippable := response.skippable:
                    count = recv_into(_nowhere, min(skippable, _BLIND), socket.MSG_TRUNC)
                    if not count:
                        response.end()
                        return True
                    if response.skip(count):
                        return False
                data = recv(_PIECE)
            except BlockingIOError:
                await self.ready(READ)
                continue
            if not data:
                self._end(response)
                return True
            if response.feed(data):
                return False

    def _end(self, response: HttpResponse) -> None:
        """End ``response``, because the server has closed the connection. Raises StaleError and RequestError."""
        if response.is_empty and self.used:
            raise StaleError
        if response.is_empty:
            raise RequestError("reset", "the server closed the connection before sending a response")
        response.end()

    def _await_end(self) -> None:
        """Close the connection as soon as the server has closed its end."""
        try:
            self._sock.recv(_PIECE)
        except (BlockingIOError, ssl.SSLWantReadError):
            self._sockets.leaving.add(self)
            self.listen(READ)
            return
        except OSError:
            pass  # a reset after the complete response is harmless
        self.close()


#: Creates a connection from the arguments of HttpConnection
NewConnection = Callable[[LoadConnections, socket.socket, str, int], HttpConnection]

"""Connections to web servers: opened, asked over, kept or left; and what of our own machine's limits they met."""

from __future__ import annotations

import errno
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Final

from lbdns_tools.load.http import ProtocolError, Reply
from lbdns_tools.load.loop import READ, WRITE, Loop, Waiter

#: s; who closes first has to keep the port for a minute (TIME_WAIT), so the server is left the time to do it
LINGER_S: Final = 1.0
_PIECE: Final = 65_536  # bytes read at a time of what has to be looked at
_BLIND: Final = 1 << 20  # bytes dropped at a time of what has not
_IP_BIND_ADDRESS_NO_PORT: Final = 24  # linux/in.h: the port is chosen at connect, one for each destination
_OURS: Final = {errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRINUSE}
_RESET: Final = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ENOTCONN}
_nowhere: Final = bytearray(_BLIND)  # MSG_TRUNC never writes to it, but its length is what may be dropped


class RequestError(Exception):
    """A request failed; ``kind`` is one of ``tally.ERRORS``."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


class StaleError(Exception):
    """A kept connection turned out to be closed before anything of a response came."""


class Sockets:
    """All connections of a process: from which addresses they are made, and which are open without a request.

    ``limit`` connections are open at most as long as no more requests are under way; 0 is no limit.
    """

    def __init__(self, loop: Loop, keep_alive: bool, sources: Sequence[str] = (), limit: int = 0) -> None:
        self.loop, self.keep_alive, self.limit = loop, keep_alive, limit
        self.local: Counter[int] = Counter()  # our own limits that were met, by errno
        self.open = 0
        self.idle: OrderedDict[Connection, None] = OrderedDict()
        self._leaving: OrderedDict[Connection, float] = OrderedDict()
        self._sources: dict[bool, Callable[[], str]] = {}
        for is_ipv6 in (False, True):
            fitting = [source for source in sources if (":" in source) == is_ipv6]
            if fitting:
                self._sources[is_ipv6] = cycle(fitting).__next__
        loop.limits.append(self)

    def connect(self, address: str, port: int) -> Connection:
        """Begin to connect. Raises RequestError."""
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
        return Connection(self, sock, address, port)

    def failure(self, error: OSError) -> RequestError:
        """What an error of the kernel means for a request."""
        code = error.errno or 0
        if code in _OURS:
            self.local[code] += 1
            kind = "local"
        elif code in _RESET:
            kind = "reset"
        else:
            kind = "timeout" if code == errno.ETIMEDOUT else "refused"  # also by a router, or a filter
        return RequestError(kind, errno.errorcode.get(code, str(error)))

    def leave(self, connection: Connection) -> None:
        self._leaving[connection] = self.loop.clock() + LINGER_S

    def left(self, connection: Connection) -> None:
        self._leaving.pop(connection, None)
        self.idle.pop(connection, None)
        self.open -= 1

    def enforce(self, now: float) -> float:
        """Close what the server has not closed in time; when the next is due."""
        while self._leaving:
            connection, end = next(iter(self._leaving.items()))
            if end > now:
                return end
            connection.close()
        return float("inf")

    def close(self) -> None:
        for connection in (*self.idle, *self._leaving):
            connection.close()


class Connection(Waiter):
    """One connection; ``connect_s`` is how long connecting took, ``used`` how many responses have come over it."""

    __slots__ = ("_began", "_sock", "_sockets", "address", "connect_s", "is_open", "port", "used")

    def __init__(self, sockets: Sockets, sock: socket.socket, address: str, port: int) -> None:
        super().__init__(sockets.loop, sock.fileno())
        self._sockets, self._sock = sockets, sock
        self.address, self.port = address, port
        self.is_open, self.used, self.connect_s = True, 0, 0.0
        self._began = sockets.loop.clock()
        sockets.open += 1

    async def ask(self, request: bytes, reply: Reply) -> None:
        """Send a request and read its response to the end. The connection is idle afterwards, or closed or closing.

        Raises RequestError, or StaleError if it has been used before and was closed in between.
        """
        self._sockets.idle.pop(self, None)
        is_well = False
        try:
            await self._send(request)
            ended = await self._receive(reply)
        except OSError as error:
            if self.used and reply.is_empty and error.errno in _RESET:
                raise StaleError from None
            raise self._sockets.failure(error) from None
        except ProtocolError as error:
            raise RequestError("protocol", str(error)) from None
        except StaleError:
            if self.used:
                raise
            raise RequestError("reset", "the connection was closed before any response") from None
        else:
            self.used += 1
            is_well = True
            if ended:
                self.close()
            elif self._sockets.keep_alive and reply.keeps:
                self._sockets.idle[self] = None
            else:
                self._await_end()
        finally:
            if not is_well:
                self.close()

    @property
    def is_idle(self) -> bool:
        """Whether another request can be sent over it."""
        return self in self._sockets.idle

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.release()
            self._sock.close()
            self._sockets.left(self)

    def unexpected(self) -> None:
        """While no request is under way the server can only close: what else comes was not asked for."""
        self.close()

    async def _send(self, request: bytes) -> None:
        """Over a loopback the connection is there at once, so we don't wait for being told that it is."""
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
                return
            rest = rest[sent:]

    async def _receive(self, reply: Reply) -> bool:
        """Read a response; whether the server has closed the connection with it. Raises StaleError if that's all."""
        recv, recv_into = self._sock.recv, self._sock.recv_into
        while True:
            await self.ready(READ)
            try:
                while skippable := reply.skippable:
                    count = recv_into(_nowhere, min(skippable, _BLIND), socket.MSG_TRUNC)
                    if not count:
                        reply.end()
                        return True
                    if reply.skip(count):
                        return False
                data = recv(_PIECE)
            except BlockingIOError:
                continue
            if not data:
                if reply.is_empty:
                    raise StaleError
                reply.end()
                return True
            if reply.feed(data):
                return False

    def _await_end(self) -> None:
        """Leave the connection to be closed by the server, which mostly has done so already."""
        try:
            self._sock.recv(_PIECE)
        except BlockingIOError:
            self._sockets.leave(self)
            self.listen(READ)
            return
        except OSError:
            pass  # reset after the whole response: it came nevertheless
        self.close()


class Pool:
    """Connections that one client keeps, or all of an open loop, by what they are good for: an address or a name, and
    a port. Those used last are taken first."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], list[Connection]] = {}

    def take(self, use: tuple[str, int]) -> Connection | None:
        """An open one that is idle, None if there is none."""
        kept = self._kept.get(use)
        while kept:
            connection = kept.pop()
            if connection.is_open:
                return connection
        return None

    def put(self, use: tuple[str, int], connection: Connection) -> None:
        """Keep it, if it is still open and idle."""
        if connection.is_idle:
            self._kept.setdefault(use, []).append(connection)

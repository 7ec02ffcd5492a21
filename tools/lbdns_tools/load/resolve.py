"""A stub resolver of our own, and what a client remembers of its answers: as long as the run's mode says.

Every query has a fresh id and a fresh port (RFC 5452), so nothing between us and the server can know it again.
"""

from __future__ import annotations

import errno
import math
import socket
import struct
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from lbdns.endpoint import DNS_PORT, Endpoint
from lbdns.errors import LbdnsError
from lbdns_tools.load.connection import RequestError
from lbdns_tools.load.dns_message import AAAA, A, Answer, AnswerError, is_answer, query, question, read_answer
from lbdns_tools.load.loop import READ, WRITE, Limits, Loop, Waiter
from lbdns_tools.load.plan import Resolve

TIMEOUT_S: Final = 2.0  # that one try may take
TRIES: Final = 2
RESOLV_CONF: Final = Path("/etc/resolv.conf")
_LARGEST: Final = 65_535
_LENGTH: Final = struct.Struct("!H")  # before every message over TCP, RFC 1035 section 4.2.2
_question = cache(question)


class NoAnswerError(Exception):
    """One try was in vain."""


def system_server(path: Path = RESOLV_CONF) -> Endpoint:
    """The first name server of resolv.conf(5). Raises LbdnsError."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise LbdnsError(f"{path}: can't be read: {error.strerror}; say whom to ask: --resolver HOST:PORT") from None
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver" and Endpoint(words[1], DNS_PORT).is_address:
            return Endpoint(words[1], DNS_PORT)
    raise LbdnsError(f"{path}: there is no name server in it; say whom to ask: --resolver HOST:PORT")


def system_address(host: str) -> str:
    """What the system's own resolver says, the hosts file included. Blocks. Raises LbdnsError."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LbdnsError(f"{host}: the system can't resolve it: {reason}") from None


class Resolver:
    """Asks one server for addresses: A, and AAAA where there is no A."""

    def __init__(self, loop: Loop, server: Endpoint, chance: Random, timeout_s: float = TIMEOUT_S) -> None:
        self._loop, self._chance = loop, chance
        self._family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
        self._server = (server.host, server.port)
        self._limits = Limits(loop, timeout_s, NoAnswerError)

    async def look_up(self, host: str) -> Answer:
        """Addresses, one at least. Raises RequestError of kind "dns", or "local"."""
        for kind in (A, AAAA):
            try:
                answer = await self._ask(_question(host, kind))
            except ValueError as error:  # AnswerError is one
                raise RequestError("dns", f"{host}: {error}") from None
            if answer.addresses:
                return answer
        raise RequestError("dns", f"{host}: there is no address")

    async def _ask(self, asked: bytes) -> Answer:
        reason = ""
        for _ in range(TRIES):
            try:
                answer = await self._in_time(asked, socket.SOCK_DGRAM)
                if answer.is_truncated:
                    answer = await self._in_time(asked, socket.SOCK_STREAM)
            except NoAnswerError:
                reason = f"no answer within {self._limits.seconds:g} s"
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.EAGAIN):
                    raise RequestError("local", f"asking the name server: {error.strerror}") from None
                reason = error.strerror or str(error)
            else:
                if not answer.is_truncated:
                    return answer
                reason = "an answer that is truncated over TCP too"
        raise AnswerError(f"{self._server[0]} port {self._server[1]}: {reason}")

    async def _in_time(self, asked: bytes, kind: socket.SocketKind) -> Answer:
        sock = socket.socket(self._family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        waiter = Waiter(self._loop, sock.fileno())
        task = self._limits.begin()
        try:
            ident = self._chance.getrandbits(16)
            code = sock.connect_ex(self._server)
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, errno.errorcode.get(code, "connect"))
            over = _over_udp if kind == socket.SOCK_DGRAM else _over_tcp
            return read_answer(await over(sock, waiter, ident, asked), asked)
        finally:
            self._limits.end(task)
            waiter.release()
            sock.close()


async def _over_udp(sock: socket.socket, waiter: Waiter, ident: int, asked: bytes) -> bytes:
    sock.send(query(ident, asked))
    while True:
        await waiter.ready(READ)
        try:
            message = sock.recv(_LARGEST)
        except BlockingIOError:
            continue
        if is_answer(message, ident, asked):
            return message


async def _over_tcp(sock: socket.socket, waiter: Waiter, ident: int, asked: bytes) -> bytes:
    message = query(ident, asked)
    rest = _LENGTH.pack(len(message)) + message
    while rest:
        try:
            rest = rest[sock.send(rest, socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            await waiter.ready(WRITE)
    held = b""
    while len(held) < 2 or len(held) < 2 + _LENGTH.unpack_from(held)[0]:
        await waiter.ready(READ)
        try:
            piece = sock.recv(_LARGEST)
        except BlockingIOError:
            continue
        if not piece:
            raise OSError(errno.ECONNRESET, "the connection was closed before the answer")
        held += piece
    answer = held[2 : 2 + _LENGTH.unpack_from(held)[0]]
    if not is_answer(answer, ident, asked):
        raise AnswerError("an answer over TCP to something else")
    return answer


class Names:
    """What one client knows: addresses, and until when it takes them for good."""

    __slots__ = ("_chance", "_fixed", "_known", "_loop", "_resolve", "_resolver")

    def __init__(
        self, loop: Loop, resolver: Resolver | None, resolve: Resolve, fixed: dict[str, str], chance: Random
    ) -> None:
        """``fixed`` are literal addresses, and what the system has resolved for everybody."""
        self._loop, self._resolver, self._resolve = loop, resolver, resolve
        self._fixed, self._chance = fixed, chance
        self._known: dict[str, tuple[str, float]] = {}

    def known(self, host: str) -> str | None:
        """The address, if nobody has to be asked now."""
        if host in self._fixed:
            return self._fixed[host]
        address, end = self._known.get(host, ("", -math.inf))
        return address if self._loop.clock() < end else None

    async def look_up(self, host: str) -> str:
        """Ask for the address and remember it as long as the mode says. Raises RequestError."""
        assert self._resolver is not None, "names need a resolver"
        answer = await self._resolver.look_up(host)
        interval = answer.ttl if self._resolve.mode == "ttl" else self._resolve.interval(self._chance)
        if interval:
            self._known[host] = (answer.addresses[0], self._loop.clock() + interval)
        return answer.addresses[0]

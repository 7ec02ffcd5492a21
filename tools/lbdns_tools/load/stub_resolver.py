"""The load generator's stub resolver, and the clients' name caches, which follow the resolve rule.

Each query uses a new ID and a new source port (RFC 5452), so that no query looks like a retransmission.
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

from lbdns_shared.endpoint import DNS_PORT, Endpoint
from lbdns_shared.errors import LbdnsError
from lbdns_tools.load.epoll_loop import READ, WRITE, DescriptorWaiter, EpollLoop, TimeLimits
from lbdns_tools.load.http_connection import RequestError
from lbdns_tools.load.load_plan import ResolveRule
from lbdns_tools.load.stub_dns_message import (
    AAAA,
    A,
    AddressAnswer,
    AnswerError,
    is_answer,
    query,
    question,
    read_answer,
)

TIMEOUT_S: Final = 2.0  # per try
TRIES: Final = 2
RESOLV_CONF: Final = Path("/etc/resolv.conf")
_LARGEST: Final = 65_535
_LENGTH: Final = struct.Struct("!H")  # before every message over TCP, RFC 1035 section 4.2.2
_question = cache(question)


class NoAnswerError(Exception):
    """The exception raised if an attempt times out before a DNS answer arrives."""


def system_server(path: Path = RESOLV_CONF) -> Endpoint:
    """Return the first name server listed in resolv.conf(5). Raises LbdnsError."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise LbdnsError(
            f"{path}: cannot read the file: {error.strerror}; specify a DNS server with --resolver HOST:PORT"
        ) from None
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver" and Endpoint(words[1], DNS_PORT).is_address:
            return Endpoint(words[1], DNS_PORT)
    raise LbdnsError(f"{path}: the file lists no name server; specify one with --resolver HOST:PORT")


def system_address(host: str) -> str:
    """Resolve a host with the operating system's resolver and hosts file. The call blocks the current thread. Raises
    LbdnsError."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LbdnsError(f"the system cannot resolve the name {host}: {reason}") from None


class StubResolver:
    """Queries a DNS server for a host's A records or, if there are none, AAAA records."""

    def __init__(self, loop: EpollLoop, server: Endpoint, chance: Random, timeout_s: float = TIMEOUT_S) -> None:
        self._loop, self._chance = loop, chance
        self._family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
        self._server = (server.host, server.port)
        self._limits = TimeLimits(loop, timeout_s, NoAnswerError)
        self.owners: dict[str, set[bytes]] = {}  # address -> owner names of its records, in wire format

    async def look_up(self, host: str) -> AddressAnswer:
        """Look up ``host`` and return at least one address. Raises RequestError of kind "dns" or "local"."""
        for kind in (A, AAAA):
            try:
                answer = await self._ask(_question(host, kind))
            except ValueError as error:  # including AnswerError
                raise RequestError("dns", f"{host}: {error}") from None
            if answer.addresses:
                for address in answer.addresses:
                    self.owners.setdefault(address, set()).add(answer.owner)
                return answer
        raise RequestError("dns", f"{host}: the name has no A or AAAA record")

    async def _ask(self, asked: bytes) -> AddressAnswer:
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
                    raise RequestError("local", f"DNS query: {error.strerror}") from None
                reason = error.strerror or str(error)
            else:
                if not answer.is_truncated:
                    return answer
                reason = "the DNS answer is truncated even over TCP"
        raise AnswerError(f"{self._server[0]} port {self._server[1]}: {reason}")

    async def _in_time(self, asked: bytes, kind: socket.SocketKind) -> AddressAnswer:
        sock = socket.socket(self._family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        waiter = DescriptorWaiter(self._loop, sock.fileno())
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


async def _over_udp(sock: socket.socket, waiter: DescriptorWaiter, ident: int, asked: bytes) -> bytes:
    sock.send(query(ident, asked))
    while True:
        await waiter.ready(READ)
        try:
            message = sock.recv(_LARGEST)
        except BlockingIOError:
            continue
        if is_answer(message, ident, asked):
            return message


async def _over_tcp(sock: socket.socket, waiter: DescriptorWaiter, ident: int, asked: bytes) -> bytes:
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
            raise OSError(errno.ECONNRESET, "the server closed the connection before sending an answer")
        held += piece
    answer = held[2 : 2 + _LENGTH.unpack_from(held)[0]]
    if not is_answer(answer, ident, asked):
        raise AnswerError("the answer over TCP does not match the query")
    return answer


class ClientNames:
    """The name cache of one client, which contains hosts' addresses and their expiry times."""

    __slots__ = ("_chance", "_fixed", "_interval", "_known", "_loop", "_resolver", "_rule")

    def __init__(
        self, loop: EpollLoop, resolver: StubResolver | None, rule: ResolveRule, fixed: dict[str, str], chance: Random
    ) -> None:
        """``fixed`` maps each host that needs no further lookup to its address: a literal address, or one that the
        system has already resolved."""
        self._loop, self._resolver, self._rule = loop, resolver, rule
        self._fixed, self._chance = fixed, chance
        self._interval = rule.interval(chance) if rule.mode == "1999" else None  # drawn once for each client
        self._known: dict[str, tuple[str, float]] = {}

    def known(self, host: str) -> str | None:
        """Return the address of ``host``, or None if a lookup is due."""
        if host in self._fixed:
            return self._fixed[host]
        address, end = self._known.get(host, ("", -math.inf))
        return address if self._loop.clock() < end else None

    async def look_up(self, host: str) -> str:
        """Look up an address of ``host``, and cache it according to the resolve rule. Raises RequestError."""
        assert self._resolver is not None, "names need a resolver"
        answer = await self._resolver.look_up(
            self._rule.first if self._rule.first and host not in self._known else host
        )
        interval = answer.ttl if self._rule.mode == "ttl" else self._interval
        if interval is None:
            interval = self._rule.interval(self._chance)
        if interval:
            self._known[host] = (answer.addresses[0], self._loop.clock() + interval)
        return answer.addresses[0]

"""One query after another at a modest pace, each answer's time taken by the kernel as the datagram comes in.

The kernel's time keeps the prober's own scheduling, next to a busy generator, out of what is measured.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Final

import dns.edns
import dns.flags
import dns.message
import dns.rdatatype

from lbdns_tools.bench.dns.processes import BenchError
from lbdns_tools.bench.measuring import percentile

SO_TIMESTAMPNS: Final = 35  # asm-generic/socket.h
MAX_RATE: Final = 5000  # queries/s: ids come round after 13 s, and an answer is waited for far less long
GRACE: Final = 1.0  # seconds the last answers may take
PAYLOAD: Final = 1232  # bytes that our queries say we take
COOKIE: Final = 10  # EDNS option (RFC 7873)
_TIMESPEC: Final = struct.Struct("@qq")


def query_wire(name: str, qtype: str = "A", edns: bool = True, recursion: bool = False) -> bytes:
    """A query with id 0."""
    flags = dns.flags.RD if recursion else 0
    query = dns.message.make_query(name, qtype, use_edns=0 if edns else False, payload=PAYLOAD, id=0, flags=flags)
    return query.to_wire()


@dataclass(slots=True)
class Probes:
    """What a prober saw; times in milliseconds."""

    sent: int = 0
    times: list[float] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return self.sent - len(self.times)

    def p(self, percent: float) -> float:
        return round(percentile(self.times, percent / 100), 3)

    def __iadd__(self, other: Probes) -> Probes:
        self.sent += other.sent
        self.times += other.times
        return self


def probe(port: int, query: bytes, rate: float, seconds: float, address: str = "127.0.0.1") -> Probes:
    """Ask ``rate`` times a second for ``seconds``. A query without an answer within GRACE of the end is lost."""
    assert rate <= MAX_RATE
    found, waiting = Probes(), dict[bytes, int]()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.connect((address, port))
        sock.setblocking(False)
        readable = select.poll()
        readable.register(sock, select.POLLIN)
        begin, total = time.monotonic(), int(rate * seconds)
        while found.sent < total:
            wait = begin + found.sent / rate - time.monotonic()
            if wait > 0:
                readable.poll(wait * 1000)
            else:
                ident = struct.pack("!H", found.sent & 0xFFFF)
                waiting[ident] = time.time_ns()
                sock.send(ident + query[2:])
                found.sent += 1
            _take_in(sock, waiting, found.times)
        deadline = time.monotonic() + GRACE
        while waiting and (left := deadline - time.monotonic()) > 0:
            readable.poll(left * 1000)
            _take_in(sock, waiting, found.times)
    return found


def _take_in(sock: socket.socket, waiting: dict[bytes, int], times: list[float]) -> None:
    """Read the answers that are there."""
    while True:
        try:
            answer, ancillary, _, _ = sock.recvmsg(4096, 64)
        except (BlockingIOError, ConnectionRefusedError):
            return
        sent = waiting.pop(answer[:2], None)
        for level, kind, data in ancillary:
            if sent is not None and (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, nanoseconds = _TIMESPEC.unpack(data)
                times.append((seconds * 10**9 + nanoseconds - sent) / 1e6)


def await_answer(port: int, query: bytes, limit: float, step: float = 0.005, address: str = "127.0.0.1") -> bytes:
    """Ask every ``step`` seconds until there is an answer; it. Raises BenchError after ``limit`` seconds."""
    deadline = time.monotonic() + limit
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((address, port))
        sock.settimeout(step)
        while time.monotonic() < deadline:
            try:
                sock.send(query)
                return sock.recv(4096)
            except TimeoutError:
                continue
            except ConnectionRefusedError:  # nobody listens yet
                time.sleep(step)
    raise BenchError(f"no answer from {address}:{port} within {limit:g} s")


def answered_names(answer: bytes) -> list[str]:
    """The owner and type of each record of an answer section: what a server was set up to say."""
    return [f"{rrset.name} {dns.rdatatype.to_text(rrset.rdtype)}" for rrset in dns.message.from_wire(answer).answer]


def with_cookie(port: int) -> str:
    """A cookie that the server at ``port`` takes from 127.0.0.1, as dnsperf's -E wants it (RFC 7873).

    The client's half alone for a server that gives none.
    """
    ours = bytes(range(8))
    query = dns.message.make_query(
        "best.hobbit", "A", use_edns=0, options=[dns.edns.GenericOption(dns.edns.OptionType(COOKIE), ours)]
    )
    answer = dns.message.from_wire(await_answer(port, query.to_wire(), 5))
    theirs = next((option.to_wire() for option in answer.options if option.otype == COOKIE), None)
    return f"{COOKIE}:{(theirs or ours).hex()}"

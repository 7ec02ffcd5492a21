"""A prober that sends queries at a modest rate and measures latency with the kernel's receive timestamps.

The prober runs alongside a busy load generator, but its own delays do not affect the measured latencies.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import dns.edns
import dns.message
import dns.rdatatype

from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.percentiles import percentile

SO_TIMESTAMPNS: Final = 35  # asm-generic/socket.h
MAX_RATE: Final = 5000  # queries/s: ids repeat after 13 s, and the prober waits far less for an answer
GRACE: Final = 1.0  # seconds that the last answers may take
PAYLOAD: Final = 1232  # bytes: the UDP payload size in our queries
COOKIE: Final = 10  # EDNS option (RFC 7873)
_TIMESPEC: Final = struct.Struct("@qq")


def query_wire(name: str, qtype: str = "A", edns: bool = True) -> bytes:
    """Return a DNS query in wire format, with ID 0."""
    query = dns.message.make_query(name, qtype, use_edns=0 if edns else False, payload=PAYLOAD, id=0, flags=0)
    return query.to_wire()


@dataclass(slots=True)
class LatencyProbe:
    """The latencies (in ms) that a prober measured, and the number of queries that it sent."""

    sent: int = 0
    times: list[float] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return self.sent - len(self.times)

    def p(self, percent: float) -> float:
        """Return the given percentile of the latencies, in ms."""
        return round(percentile(self.times, percent), 3)


def latency_figures(probes: LatencyProbe, dnsperf: Sequence[float]) -> dict[str, float]:
    """Return percentiles, in ms, of the latencies measured by a prober and by dnsperf."""
    return {
        "kernel_p50_ms": probes.p(50),
        "kernel_p99_ms": probes.p(99),
        "kernel_worst_ms": probes.p(100),
        "dnsperf_p50_ms": percentile(dnsperf, 50),
        "dnsperf_p99_ms": percentile(dnsperf, 99),
    }


def probe(port: int, query: bytes, rate: float, seconds: float) -> LatencyProbe:
    """Send ``rate`` queries/s for ``seconds``. Queries that are still unanswered GRACE seconds after the last query
    count as lost."""
    assert rate <= MAX_RATE
    found, waiting = LatencyProbe(), dict[bytes, int]()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.connect(("127.0.0.1", port))
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
            _read_answers(sock, waiting, found.times)
        deadline = time.monotonic() + GRACE
        while waiting and (left := deadline - time.monotonic()) > 0:
            readable.poll(left * 1000)
            _read_answers(sock, waiting, found.times)
    return found


def _read_answers(sock: socket.socket, waiting: dict[bytes, int], times: list[float]) -> None:
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


def await_answer(port: int, query: bytes, limit: float, step: float = 0.005) -> bytes:
    """Send a query every ``step`` seconds until an answer arrives, and return that answer.

    Raises BenchmarkError if no answer arrives within ``limit`` seconds.
    """
    deadline = time.monotonic() + limit
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", port))
        sock.settimeout(step)
        while time.monotonic() < deadline:
            try:
                sock.send(query)
                return sock.recv(4096)
            except TimeoutError:
                continue
            except ConnectionRefusedError:  # the server does not listen yet
                time.sleep(step)
    raise BenchmarkError(f"127.0.0.1:{port} did not answer a query within {limit:g} s")


def answered_names(answer: bytes) -> list[str]:
    """Return the owner name and type of each RRset in the answer section."""
    return [f"{rrset.name} {dns.rdatatype.to_text(rrset.rdtype)}" for rrset in dns.message.from_wire(answer).answer]


def cookie_option(port: int) -> str:
    """Return the cookie to pass to dnsperf -E (RFC 7873).

    The value is the server's cookie or, if the server sends no cookie, only the client cookie.
    """
    ours = bytes(range(8))
    query = dns.message.make_query(
        "best.hobbit", "A", use_edns=0, options=[dns.edns.GenericOption(dns.edns.OptionType(COOKIE), ours)]
    )
    answer = dns.message.from_wire(await_answer(port, query.to_wire(), 5))
    theirs = next((option.to_wire() for option in answer.options if option.otype == COOKIE), None)
    return f"{COOKIE}:{(theirs or ours).hex()}"

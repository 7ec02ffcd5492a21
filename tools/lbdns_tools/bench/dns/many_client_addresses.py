"""A generator of queries from thousands of client addresses: one socket that sends from the loopback network.

dnsperf sends from one address, so all that a server remembers per client stays in the processor's cache.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Final

from lbdns_tools.bench.dns.dnsperf import DnsperfResult
from lbdns_tools.bench.dns.measured_processes import BenchmarkError

BURST: Final = 64  # unanswered queries at a time: as many as a server reads at once
MOST: Final = 65_536  # addresses: 127.1.0.0/16
PATIENCE: Final = struct.pack("@ll", 1, 0)  # seconds and microseconds to wait for an answer
_IP_PKTINFO: Final = 8  # linux/in.h
_FIRST: Final = 0x7F010000


def sources(count: int) -> list[list[tuple[int, int, bytes]]]:
    """Return the ancillary data to send from each of ``count`` addresses (ip(7), IP_PKTINFO)."""
    return [
        [(socket.IPPROTO_IP, _IP_PKTINFO, struct.pack("@i", 0) + struct.pack("!II", _FIRST + number, 0))]
        for number in range(count)
    ]


def query_from(port: int, queries: Sequence[bytes], addresses: int, seconds: float) -> DnsperfResult:
    """Send all ``queries`` from each address in turn, with a new id each time round; wait for answers after each BURST.

    Raises BenchmarkError if the server does not answer.
    """
    sent = answered = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("0.0.0.0", 0))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, PATIENCE)  # Python's timeout costs a system call each
        server, turns = ("127.0.0.1", port), _turns(queries, addresses)
        begin = time.monotonic()
        while (took := time.monotonic() - begin) < seconds:
            for query, source in itertools.islice(turns, BURST):
                sock.sendmsg((query,), source, 0, server)
            sent += BURST
            try:
                for _ in range(BURST):
                    sock.recv(512)
                    answered += 1
            except BlockingIOError:
                if not answered:
                    raise BenchmarkError(f"no answer from 127.0.0.1:{port}") from None
    return DnsperfResult(sent, answered, took, {})


def _turns(queries: Sequence[bytes], addresses: int) -> Iterator[tuple[bytes, list[tuple[int, int, bytes]]]]:
    every = sources(addresses)
    for ident in itertools.cycle(range(65_536)):
        named = [ident.to_bytes(2, "big") + query[2:] for query in queries]
        for source in every:
            for query in named:
                yield query, source

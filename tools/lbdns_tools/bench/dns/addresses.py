"""Many clients, each at an address of its own: one socket that sends from all over the loopback's network.

dnsperf asks from one address, so whatever a server remembers by client stays in its processor's cache.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Final

from lbdns_tools.bench.dns.dnsperf import Load
from lbdns_tools.bench.dns.processes import BenchError

BURST: Final = 64  # queries that wait at a time: as many as a server reads at once
MOST: Final = 65_536  # addresses: 127.1.0.0/16
PATIENCE: Final = struct.pack("@ll", 1, 0)  # s and us that an answer is waited for
_IP_PKTINFO: Final = 8  # linux/in.h
_FIRST: Final = 0x7F010000


def sources(count: int) -> list[list[tuple[int, int, bytes]]]:
    """What makes the kernel send from each of so many addresses (ip(7), IP_PKTINFO: interface, source, nothing)."""
    return [
        [(socket.IPPROTO_IP, _IP_PKTINFO, struct.pack("@i", 0) + struct.pack("!II", _FIRST + number, 0))]
        for number in range(count)
    ]


def ask_from(port: int, queries: Sequence[bytes], addresses: int, seconds: float) -> Load:
    """Each address in turn sends all ``queries``, with a new id each time round. BURST at once; then their answers are
    waited for. Raises BenchError when none comes."""
    sent = answered = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("0.0.0.0", 0))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, PATIENCE)  # a timeout of Python's costs a call each
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
                    raise BenchError(f"nobody answers on 127.0.0.1:{port}") from None
    return Load(sent, answered, took, {})


def _turns(queries: Sequence[bytes], addresses: int) -> Iterator[tuple[bytes, list[tuple[int, int, bytes]]]]:
    every = sources(addresses)
    for ident in itertools.cycle(range(65_536)):
        named = [ident.to_bytes(2, "big") + query[2:] for query in queries]
        for source in every:
            for query in named:
                yield query, source

"""Measures amplification: bytes sent per byte received, for each kind of query, with the default rate limits.

The benchmark sends plain UDP queries at a high rate. The queries of each kind come from a separate loopback network,
because rate limits apply per prefix. At the end, one address sends queries of all kinds in turn. Only the bytes of DNS
messages are counted, because IP and UDP headers would lower the ratio. If the source address of a query is spoofed, the
owner of that address receives the answer.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BenchmarkFarm
from lbdns_tools.bench.dns.compared_servers import serving_lbdns
from lbdns_tools.bench.dns.latency_prober import query_wire

TAKES: Final = "about 50 s (number of query kinds x --seconds)"
EXAMPLE: Final = "--rate 5000"
PIECE: Final = 16  # queries sent before the clock and the answers are read again
GRACE: Final = 0.3  # seconds that the last answers may take
TC: Final = 0x02  # in the third octet of a header (RFC 1035 4.1.1)
#: The longest RRset that fits 1232 octets
BIG: Final = "big TXT " + " ".join(f'"{letter * 200}"' for letter in "abcde") + "\n"
KINDS: Final[Mapping[str, bytes]] = {
    "best A, EDNS": query_wire("best.hobbit"),
    "best A": query_wire("best.hobbit", edns=False),
    "best ANY, EDNS": query_wire("best.hobbit", "ANY"),
    "apex ANY, EDNS": query_wire("hobbit", "ANY"),
    "big TXT, EDNS": query_wire("big.hobbit", "TXT"),
    "big TXT": query_wire("big.hobbit", "TXT", edns=False),
    "no such name, EDNS": query_wire("nobody.hobbit"),
    "no such type, EDNS": query_wire("gandalf.hobbit", "MX"),
    "refused, EDNS": query_wire("www.example.net"),
    "garbage": b"\0\0\0\0\0\1" + Random(1).randbytes(30),
}


@dataclass(slots=True)
class AmplificationFlow:
    """The number and total size of the queries from one source address, and of the answers sent to it."""

    queries: int = 0
    answers: int = 0
    truncated: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def ratio(self) -> float:
        return round(self.bytes_out / self.bytes_in, 3) if self.bytes_in else 0.0


def query_at_rate(port: int, source: str, queries: Sequence[bytes], rate: float, seconds: float) -> AmplificationFlow:
    """Send ``queries`` in turn from ``source`` at ``rate`` queries/s, and count the answers."""
    flow, begin = AmplificationFlow(), time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        sock.bind((source, 0))
        sock.connect(("127.0.0.1", port))
        sock.setblocking(False)
        while (now := time.monotonic() - begin) < seconds:
            if flow.queries > now * rate:
                time.sleep(PIECE / rate)
            for _ in range(PIECE if flow.queries <= now * rate else 0):
                query = queries[flow.queries % len(queries)]
                with contextlib.suppress(BlockingIOError):
                    sock.send((flow.queries & 0xFFFF).to_bytes(2) + query[2:])
                    flow.queries += 1
                    flow.bytes_in += len(query)
            _count_answers(sock, flow)
        time.sleep(GRACE)
        _count_answers(sock, flow)
    return flow


def _count_answers(sock: socket.socket, flow: AmplificationFlow) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            answer = sock.recv(65535)
            flow.answers += 1
            flow.bytes_out += len(answer)
            flow.truncated += answer[2] & TC != 0


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    farm = BenchmarkFarm(folder, limit=None, zone=BIG, plane=options.plane)
    traffic = {kind: [query] for kind, query in KINDS.items()} | {"all in turn": list(KINDS.values())}
    with serving_lbdns(farm, options.server_core) as server:
        flows = {
            kind: query_at_rate(server.port, f"127.1.{number}.1", queries, options.rate, options.seconds)
            for number, (kind, queries) in enumerate(traffic.items())
        }
    worst = max(flow.ratio for flow in flows.values())
    return {
        "note": f"{server.note}; highest ratio: {worst} (all kinds in turn: {flows['all in turn'].ratio})",
        "worst_ratio": worst,
        "kinds": {kind: asdict(flow) | {"ratio": flow.ratio} for kind, flow in flows.items()},
    }


def tables(results: command.Results) -> command.Tables:
    heads = ("kind", "queries", "answers", "truncated", "bytes in", "bytes out", "out / in")
    rows = [(kind, *found.values()) for kind, found in results["kinds"].items()]
    return [command.table("bytes sent per byte received", heads, rows)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--seconds", float, 0.2, 60, 4, "how long to send each kind of query, in seconds")
    command.add_number(parser, "--rate", float, 100, 50_000, 3000, "queries/s")
    command.add_dns_options(parser)

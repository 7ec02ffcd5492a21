"""Amplification: bytes answered for bytes asked, by kind of query, with rate limiting at its default for everybody.

Plain UDP queries at a high rate, each kind from a network of its own on the loopback (rate limits are kept by prefix),
and at last all kinds in turn from one address. Bytes are of DNS messages, without the headers of IP and UDP that would
flatter the ratio. A spoofed victim gets what is counted as answered.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from rich.console import Console

from lbdns_tools.bench.dns import command
from lbdns_tools.bench.dns.farm import Farm
from lbdns_tools.bench.dns.prober import query_wire
from lbdns_tools.bench.dns.servers import serving_lbdns

TAKES: Final = "about 50 s (kinds x seconds)"
PIECE: Final = 16  # queries between two looks at clock and answers
GRACE: Final = 0.3  # seconds for the last answers
TC: Final = 0x02  # in the third octet of a header (RFC 1035 4.1.1)
BIG: Final = "big TXT " + " ".join(f'"{letter * 200}"' for letter in "abcde") + "\n"  # the most that fits 1232 octets
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
class Flow:
    """What went in and out for one source address."""

    queries: int = 0
    answers: int = 0
    truncated: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def ratio(self) -> float:
        return round(self.bytes_out / self.bytes_in, 3) if self.bytes_in else 0.0


def ask(port: int, source: str, queries: Sequence[bytes], rate: float, seconds: float) -> Flow:
    """Send ``queries`` in turn from ``source``, ``rate`` a second, and count what comes back."""
    flow, begin = Flow(), time.monotonic()
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


def _count_answers(sock: socket.socket, flow: Flow) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            answer = sock.recv(65535)
            flow.answers += 1
            flow.bytes_out += len(answer)
            flow.truncated += answer[2] & TC != 0


def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
    farm = Farm(folder, limit=None, zone=BIG, plane=options.plane)
    flows: dict[str, Flow] = {}
    with serving_lbdns(farm, options.server_core) as served:
        for number, (kind, query) in enumerate(KINDS.items()):
            flows[kind] = ask(served.port, f"127.1.{number}.1", [query], options.rate, options.seconds)
        flows["all in turn"] = ask(served.port, "127.2.0.1", list(KINDS.values()), options.rate, options.seconds)
        note = served.note
    whole = flows["all in turn"].ratio
    return {
        "note": f"{note}; worst ratio {max(flow.ratio for flow in flows.values())}, all in turn {whole}",
        "kinds": {
            kind: {
                "queries": flow.queries,
                "answers": flow.answers,
                "truncated": flow.truncated,
                "bytes_in": flow.bytes_in,
                "bytes_out": flow.bytes_out,
                "ratio": flow.ratio,
            }
            for kind, flow in flows.items()
        },
    }


def show(figures: command.Figures, console: Console) -> None:
    heads = ("kind", "queries", "answers", "truncated", "bytes in", "bytes out", "out / in")
    rows = [(kind, *found.values()) for kind, found in figures["kinds"].items()]
    console.print(command.table("bytes answered for bytes asked", heads, rows))
    console.print(command.noted(figures))


def main() -> int:
    made = command.parser("amplification", __doc__, TAKES, "--rate 5000")
    command.bound(made, "--seconds", float, 0.2, 60, 4, "seconds of each kind")
    command.bound(made, "--rate", float, 100, 50_000, 3000, "queries/s")
    return command.run(made, measure, show)


if __name__ == "__main__":
    sys.exit(main())

"""Compares CPU time per query with and without address family affinity.

With affinity, answers to a client's A and AAAA queries name the same member. The configuration key 'coherence' controls
affinity. For each plane, two servers are put under load in turn: one with the default 'coherence', and one with
'coherence' set to 0. Each ratio compares figures from the same round. If the load contains only A queries, the server
stores every selection but reuses none. If the load consists of pairs of A and AAAA queries, the second query in each
pair reuses the selection made for the first. In some rows, dnsperf sends all queries from one address. In the rows
'from N addresses', another generator sends queries from each client address in turn. By the time a client sends its
next query, its stored selection has therefore left the processor's cache. The generator that uses several addresses is
too slow to saturate a server on the native plane.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import socket
import statistics
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BEST, BenchmarkFarm
from lbdns_tools.bench.dns.compared_servers import MeasuredServer, serving_lbdns
from lbdns_tools.bench.dns.dnsperf import DnsperfResult, DnsperfRun, run_dnsperf, write_queries
from lbdns_tools.bench.dns.latency_prober import query_wire
from lbdns_tools.bench.measured_processes import BenchmarkError

TAKES: Final = "about 6 minutes (--rounds x planes x 2 settings x 4 query patterns x (--seconds + warm-up))"
EXAMPLE: Final = "--rounds 9"
WARM_UP: Final = 0.3  # seconds of load before each measured run
SWITCHED: Final[Mapping[str, str]] = {"on": "", "off": "coherence = 0\n"}
_PAIR: Final = (BEST, (BEST[0], "AAAA"))
BURST: Final = 64  # unanswered queries at a time: as many as a server reads at once
MAX_ADDRESSES: Final = 65_536  # 127.1.0.0/16
PATIENCE: Final = struct.pack("@ll", 1, 0)  # seconds and microseconds to wait for an answer
_IP_PKTINFO: Final = 8  # linux/in.h
_FIRST: Final = 0x7F010000


@dataclass(frozen=True, slots=True)
class QueryPattern:
    """The questions to send, and the number of client addresses (0: dnsperf sends all queries from one address)."""

    name: str
    questions: tuple[tuple[str, str], ...]
    addresses: int = 0

    def load(self, port: int, folder: Path, core: int, seconds: float) -> DnsperfResult:
        if self.addresses:
            return query_from(port, [query_wire(*question) for question in self.questions], self.addresses, seconds)
        return run_dnsperf(DnsperfRun(port, write_queries(folder / "queries", self.questions), core, seconds=seconds))


def query_from(port: int, queries: Sequence[bytes], addresses: int, seconds: float) -> DnsperfResult:
    """Send ``queries`` from each address in turn, in bursts of BURST. Raises BenchmarkError if no answer arrives."""
    sent = answered = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("0.0.0.0", 0))
        sock.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, PATIENCE
        )  # Python's timeout costs a system call per read
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
                    raise BenchmarkError(f"127.0.0.1:{port} did not answer any query") from None
    return DnsperfResult(sent, answered, took, {})


def _turns(queries: Sequence[bytes], addresses: int) -> Iterator[tuple[bytes, list[tuple[int, int, bytes]]]]:
    """Yield each query with the ancillary data that sets its source address (ip(7), IP_PKTINFO)."""
    sources = [
        [(socket.IPPROTO_IP, _IP_PKTINFO, struct.pack("@i", 0) + struct.pack("!II", _FIRST + number, 0))]
        for number in range(addresses)
    ]
    for ident in itertools.cycle(range(65_536)):
        numbered = [ident.to_bytes(2, "big") + query[2:] for query in queries]
        for source in sources:
            for query in numbered:
                yield query, source


def query_patterns(addresses: int) -> list[QueryPattern]:
    far = f"from {addresses:,} addresses"
    return [
        QueryPattern("A", (BEST,)),
        QueryPattern("A and AAAA", _PAIR),
        QueryPattern(f"A {far}", (BEST,), addresses),
        QueryPattern(f"A and AAAA {far}", _PAIR, addresses),
    ]


def cost(server: MeasuredServer, pattern: QueryPattern, folder: Path, options: argparse.Namespace) -> float:
    """Return the CPU time per answered query in microseconds."""
    pattern.load(server.port, folder, options.load_core, WARM_UP)
    before = server.process.cpu_seconds()
    found = pattern.load(server.port, folder, options.load_core, options.seconds)
    return 1e6 * (server.process.cpu_seconds() - before) / found.answered


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    planes = ("python", "native") if options.plane == "auto" else (options.plane,)
    patterns = query_patterns(options.addresses)
    costs: dict[str, dict[str, dict[str, list[float]]]] = {}
    with contextlib.ExitStack() as stack:
        servers: dict[tuple[str, str], MeasuredServer] = {}
        for plane in planes:
            for switched, line in SWITCHED.items():
                place = folder / f"{plane}-{switched}"
                place.mkdir()
                farm = BenchmarkFarm(place, plane=plane, pool=line)
                server = stack.enter_context(serving_lbdns(farm, options.server_core, f"lbdns {place.name}"))
                servers[plane, switched] = server
        for number in command.rounds(options.rounds):
            for pattern in patterns:
                # The first server of a round has the coldest processor, so every other round reverses the order
                for (plane, switched), server in list(servers.items())[:: -1 if number % 2 else 1]:
                    column = costs.setdefault(plane, {}).setdefault(pattern.name, {}).setdefault(switched, [])
                    column.append(cost(server, pattern, folder, options))
    return {"planes": {plane: summary(found) for plane, found in costs.items()}, "rounds": costs}


def summary(costs: Mapping[str, Mapping[str, list[float]]]) -> dict[str, command.Results]:
    """Return each query pattern's median CPU times and median ratio across all rounds."""
    return {
        name: {
            "on_us": round(statistics.median(found["on"]), 2),
            "off_us": round(statistics.median(found["off"]), 2),
            "ratio": command.median_ratio(found["on"], found["off"]),
        }
        for name, found in costs.items()
    }


def tables(results: command.Results) -> command.Tables:
    heads = ("queries", "on: us/query", "off: us/query", "on / off")
    for plane, found in results["planes"].items():
        rows = [(name, *one.values()) for name, one in found.items()]
        yield command.table(f"CPU time per query on the {plane} plane (median of all rounds)", heads, rows)


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--rounds", int, 1, 50, 7, "number of rounds; each round measures every server")
    command.add_number(parser, "--seconds", float, 0.5, 60, 2, "seconds per run")
    command.add_number(
        parser,
        "--addresses",
        int,
        1,
        MAX_ADDRESSES,
        32_768,
        "number of client addresses for the rows 'from N addresses'",
    )
    command.add_dns_options(parser)

"""Floods a server with malformed datagrams, and measures memory use, log lines, and the latency and loss of valid
queries.

A generator sends malformed datagrams of many kinds at the maximum rate. Before and during the flood, a prober sends
valid queries at a modest rate and reads each answer's kernel receive timestamp. The flood and the valid queries share
the server's receive buffer. A server that cannot keep up therefore loses valid queries too. For comparison, the
benchmark also floods NSD, a fast server. If the benchmark does not run as root, the prober has no priority over the
generator, and latencies are less precise.
"""

from __future__ import annotations

import argparse
import random
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BEST, LbdnsProgram
from lbdns_tools.bench.dns.compared_servers import MeasuredServer, serving_beside_peers
from lbdns_tools.bench.dns.latency_prober import MAX_RATE, LatencyProbe, probe, query_wire
from lbdns_tools.bench.measured_processes import MeasuredProcess, running, take_priority

TAKES: Final = "about 3 minutes (2 servers x (--seconds + 15 s))"
EXAMPLE: Final = "--seconds 60 --rate 200"
CALM: Final = 10.0  # seconds of good queries alone, before the flood
WARM_UP: Final = 2.0  # seconds of flood before the first reading of the memory
PATIENCE: Final = 20.0  # seconds the generator may run longer than requested
PREPARED: Final = 4096  # different datagrams of a flood
PIECE: Final = 64  # datagrams sent between two readings of the clock
LABEL: Final = 63  # octets (RFC 1035 2.3.4)
_GOOD: Final = query_wire("best.hobbit")
_PLAIN: Final = query_wire("best.hobbit", edns=False)
_HEADER: Final = struct.Struct("!HHHHHH")


def _header(chance: random.Random, flags: int = 0, counts: Sequence[int] = (1, 0, 0, 0)) -> bytes:
    return _HEADER.pack(chance.getrandbits(16), flags, *counts)


def _flipped(chance: random.Random) -> bytes:
    made = bytearray(_GOOD)
    for _ in range(chance.randrange(1, 6)):
        made[chance.randrange(2, len(made))] = chance.getrandbits(8)
    return bytes(made)


def _pointers(chance: random.Random) -> bytes:
    """Return a query whose name is a compression pointer to itself, to a later octet, or back into the header."""
    targets = (12, 14, 13, chance.randrange(0, 1 << 14))
    return _header(chance) + struct.pack("!H", 0xC000 | chance.choice(targets)) + b"\0\1\0\1"


def _long_name(chance: random.Random) -> bytes:
    labels = b"".join(bytes([LABEL]) + chance.randbytes(LABEL) for _ in range(chance.randrange(4, 20)))
    return _header(chance) + labels + b"\0\0\1\0\1"


def _bad_opt(chance: random.Random) -> bytes:
    """Return a query with two OPT records, or one OPT with an owner name, a missing octet or an overlong option."""
    opt = _GOOD[-11:]
    option = struct.pack("!HH", chance.getrandbits(16), chance.choice((1, 200, 65535))) + chance.randbytes(8)
    filled = opt[:-2] + struct.pack("!H", len(option)) + option
    many = _header(chance, 0, (1, 0, 0, 2)) + _PLAIN[12:]
    one = _header(chance, 0, (1, 0, 0, 1)) + _PLAIN[12:]
    return chance.choice((many + opt + opt, one + filled, one + b"\1a" + opt, one + opt[:-1]))


KINDS: Final[dict[str, Callable[[random.Random], bytes]]] = {
    "noise": lambda chance: chance.randbytes(chance.randrange(0, 600)),
    "cut short": lambda chance: _GOOD[: chance.randrange(len(_GOOD))],
    "bits flipped": _flipped,
    "any flags": lambda chance: _header(chance, chance.getrandbits(16)) + _PLAIN[12:],
    "any counts": lambda chance: (
        _header(chance, 0, [chance.choice((0, 1, 2, 255, 65535)) for _ in range(4)]) + _PLAIN[12:]
    ),
    "pointers": _pointers,
    "name too long": _long_name,
    # A label whose first two bits are 01 or 10, which are not in use (RFC 6891 section 5)
    "odd label": lambda chance: (
        _header(chance) + bytes([chance.choice((0x40, 0x80)) | chance.getrandbits(6)]) + _PLAIN[13:]
    ),
    "trailing octets": lambda chance: _PLAIN + chance.randbytes(chance.randrange(1, 1200)),
    "bad OPT": _bad_opt,
    "response": lambda chance: _header(chance, 0x8400) + _PLAIN[12:],
}


def datagrams(seed: int, count: int = PREPARED) -> list[bytes]:
    """Return ``count`` malformed datagrams, cycling through all kinds."""
    chance = random.Random(seed)
    kinds = list(KINDS.values())
    return [kinds[number % len(kinds)](chance) for number in range(count)]


def flooding(
    port: int, core: int, seed: int, seconds: float, log: Path, rate: float = 0.0
) -> AbstractContextManager[MeasuredProcess]:
    """Run a process that floods ``port`` for up to ``seconds``, and stop it when the with statement ends."""
    command = [sys.executable, "-m", __spec__.name, *map(str, (port, seed, seconds, rate))]
    return running("flood", command, core, log)


def send(port: int, seed: int, seconds: float, rate: float = 0.0) -> int:
    """Send up to ``rate`` malformed datagrams/s (0: no limit) for ``seconds``, and return the number sent."""
    prepared = datagrams(seed)
    sent, begin = 0, time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        address = ("127.0.0.1", port)
        sock.setblocking(False)
        while (now := time.monotonic() - begin) < seconds:
            if rate and sent > now * rate:
                time.sleep(min(PIECE / rate, 0.1))
                continue
            for _ in range(PIECE):
                try:
                    sock.sendto(prepared[sent % PREPARED], address)
                except BlockingIOError:
                    continue
                except ConnectionRefusedError:
                    break
                sent += 1
    return sent


def flood_server(server: MeasuredServer, options: argparse.Namespace) -> command.Results:
    """Flood one server, and return the figures from before and during the flood."""
    query, process, log = query_wire(*BEST), server.process, server.process.log.with_suffix(".flood")
    calm = probe(server.port, query, options.rate, CALM)
    with flooding(server.port, options.load_core, options.seed, WARM_UP, log) as warming:
        warming.output(WARM_UP + PATIENCE)
    before, lines, cpu = process.rss(), process.log_lines(), process.cpu_seconds()
    with flooding(server.port, options.load_core, options.seed, options.seconds, log) as generator:
        beside = probe(server.port, query, options.rate, options.seconds)
        sent = int(generator.output(PATIENCE))
    return {
        **_latencies("calm_", calm),
        **_latencies("", beside),
        "malformed_per_s": round(sent / options.seconds),
        "cpu_percent": round(100 * (process.cpu_seconds() - cpu) / options.seconds),
        "rss_before_mb": round(before / 1e6, 2),
        "rss_after_mb": round(process.rss() / 1e6, 2),
        "log_lines": process.log_lines() - lines,
    }


def _latencies(prefix: str, probes: LatencyProbe) -> command.Results:
    figures = {"p50_ms": probes.p(50), "p99_ms": probes.p(99), "queries": probes.sent, "lost": probes.lost}
    return {prefix + name: value for name, value in figures.items()}


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    precise = take_priority()
    servers: dict[str, command.Results] = {}
    lbdns = {"lbdns": (options.plane, LbdnsProgram())}
    with serving_beside_peers(lbdns, [] if options.alone else ["nsd"], folder, options.server_core) as flooded:
        for name, server in flooded.items():
            servers[name] = flood_server(server, options)
    note = flooded["lbdns"].note
    return {
        "note": note + ("" if precise else "; without root privileges, latencies are less precise"),
        "servers": servers,
    }


def tables(results: command.Results) -> command.Tables:
    return [command.side_by_side("valid queries before and during the flood", results["servers"])]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--seconds", float, 1, 3600, 60, "seconds of flood")
    command.add_number(parser, "--rate", float, 1, MAX_RATE, 200, "valid queries/s")
    command.add_number(parser, "--seed", int, 0, 2**31, 1, "seed for the malformed datagrams")
    parser.add_argument("--alone", action="store_true", help="do not compare with NSD")
    command.add_dns_options(parser)


if __name__ == "__main__":  # run by ``flooding`` with PORT SEED SECONDS RATE
    print(send(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))

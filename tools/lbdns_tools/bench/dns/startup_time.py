"""Measures the start-up time (exec to first answer) and memory use of lbdns and NSD, with a small and a large zone.

By default, the large zone contains 100,000 names. Each start uses a new process, which receives a query every 2 ms
until it answers. The kernel's page cache stays warm. With --imports, the benchmark also lists the modules that take the
longest to import. The import times come from python -X importtime, which slows down imports.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BenchmarkFarm, address_records, zone_text
from lbdns_tools.bench.dns.compared_servers import PEERS
from lbdns_tools.bench.dns.latency_prober import await_answer, query_wire
from lbdns_tools.bench.measured_processes import running
from lbdns_tools.free_ports import free_port

TAKES: Final = "about 30 s"
EXAMPLE: Final = "--times 21 --imports"
STEP: Final = 0.002  # seconds between two queries
LIMIT: Final = 60.0  # seconds a server may take until its first answer
SHOWN: Final = 15  # modules that --imports lists


class StartedServers:
    """A pair of servers, lbdns and NSD, that serve the same zone. Each method call starts new processes."""

    def __init__(self, folder: Path, count: int, options: argparse.Namespace) -> None:
        folder.mkdir()
        self._folder, self._core = folder, options.server_core
        lines = address_records(f"h{number:06d}" for number in range(count))
        self._farm = BenchmarkFarm(folder, zone=lines, plane=options.plane)
        self._port = free_port()
        (folder / "nsd.zone").write_text(zone_text(fixed=True) + lines)
        self._nsd = PEERS["nsd"](folder, self._port, folder / "nsd.zone")
        self._query = query_wire(f"h{count - 1:06d}.hobbit" if count else "best.hobbit")

    def both(self) -> dict[str, tuple[float, int]]:
        return {
            "lbdns": self._start("lbdns", self._farm.command(), self._farm.port),
            "nsd": self._start("nsd", self._nsd, self._port),
        }

    def imports(self) -> list[tuple[int, str]]:
        """Start lbdns and return its slowest imports, each as (microseconds excluding nested imports, module)."""
        command_line = self._farm.command()
        command_line[1:1] = ["-X", "importtime"]
        self._start("imports", command_line, self._farm.port)
        return slowest((self._folder / "imports").read_text())

    def _start(self, name: str, command_line: Sequence[str], port: int) -> tuple[float, int]:
        """Start a server, and return the time from exec to the first answer in ms and the resident memory in bytes."""
        begin = time.perf_counter()
        with running(name, command_line, self._core, self._folder / name) as server:
            await_answer(port, self._query, LIMIT, STEP)
            return 1000 * (time.perf_counter() - begin), server.rss()


def slowest(text: str) -> list[tuple[int, str]]:
    """Return the slowest imports in the output of -X importtime, with times that exclude nested imports."""
    found = re.findall(r"^import time: +(\d+) \| +\d+ \| +(\S+)$", text, re.MULTILINE)
    return sorted(((int(own), name) for own, name in found), reverse=True)[:SHOWN]


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    results: command.Results = {"servers": {}}
    small = StartedServers(folder / "small", 0, options)
    large = StartedServers(folder / "large", options.names, options)
    for title, starts, times in (("small zone", small, options.times), ("large zone", large, options.large_times)):
        found = [starts.both() for _ in range(times)]
        for name in found[0]:
            column = [one[name] for one in found]
            results["servers"].setdefault(name, {})[title] = {
                "median_ms": round(statistics.median(ms for ms, _ in column), 1),
                "most_ms": round(max(ms for ms, _ in column), 1),
                "rss_mb": round(max(rss for _, rss in column) / 1e6, 1),
            }
    results["names"] = options.names
    results["imports"] = small.imports() if options.imports else []
    return results


def tables(results: command.Results) -> command.Tables:
    rows = [
        (f"{name}, {title}", *found.values())
        for name, titles in results["servers"].items()
        for title, found in titles.items()
    ]
    heads = ("server", "median ms", "most ms", "RSS MB")
    yield command.table(f"time from exec to the first answer (large zone: {results['names']} names)", heads, rows)
    if results["imports"]:
        rows = [(name, own) for own, name in results["imports"]]
        yield command.table("longest imports", ("module", "us without its imports"), rows)


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--times", int, 1, 200, 9, "number of times to start each server with the small zone")
    command.add_number(
        parser, "--large-times", int, 1, 20, 1, "number of times to start each server with the large zone"
    )
    command.add_number(parser, "--names", int, 1, 1_000_000, 100_000, "number of names in the large zone")
    parser.add_argument("--imports", action="store_true", help="also list the modules that take the longest to import")
    command.add_dns_options(parser)

"""Start: from exec to the first answer, lbdns and NSD in turn; and the same with a zone of 100,000 names, with memory.

A fresh process each time, asked every 2 ms; nothing is dropped from the kernel's page cache. With --imports, modules
that take longest to import are listed (python -X importtime, which itself slows the imports down).
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from lbdns_tools.bench.dns import command
from lbdns_tools.bench.dns.farm import Farm, zone_text
from lbdns_tools.bench.dns.prober import await_answer, query_wire
from lbdns_tools.bench.dns.processes import running
from lbdns_tools.bench.dns.servers import peers
from lbdns_tools.ports import free_port

TAKES: Final = "about 30 s"
STEP: Final = 0.002  # seconds between two queries
LIMIT: Final = 60.0  # seconds a server may take to its first answer
SHOWN: Final = 15  # modules


def first_answer(name: str, words: Sequence[str], port: int, query: bytes, core: int, log: Path) -> tuple[float, int]:
    """Milliseconds from exec to the first answer, and resident bytes then."""
    begin = time.perf_counter()
    with running(name, words, core, log) as server:
        await_answer(port, query, LIMIT, STEP)
        return 1000 * (time.perf_counter() - begin), server.rss()


def names(count: int) -> str:
    """Lines of a master file for ``count`` hosts."""
    return "".join(f"h{n:06d} A 10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}\n" for n in range(count))


class Starts:
    """lbdns and NSD with the same zone, startable over and over."""

    def __init__(self, folder: Path, count: int, options: argparse.Namespace) -> None:
        folder.mkdir()
        self._folder, self._options = folder, options
        lines = names(count)
        self._farm = Farm(folder, zone=lines, plane=options.plane)
        self._port = free_port()
        (folder / "nsd.zone").write_text(zone_text(fixed=True) + lines)
        self._nsd = peers()["nsd"](folder, self._port, folder / "nsd.zone")
        self._query = query_wire(f"h{count - 1:06d}.hobbit" if count else "best.hobbit")

    def both(self) -> dict[str, tuple[float, int]]:
        core, log = self._options.server_core, self._folder / "log"
        return {
            "lbdns": first_answer("lbdns", self._farm.command(), self._farm.port, self._query, core, log),
            "nsd": first_answer("nsd", self._nsd.command, self._port, self._query, core, log),
        }

    def imports(self) -> list[tuple[int, str]]:
        """Microseconds and name of the modules that take longest by themselves."""
        words = self._farm.command()
        words[1:1] = ["-X", "importtime"]
        log = self._folder / "imports"
        first_answer("lbdns", words, self._farm.port, self._query, self._options.server_core, log)
        return slowest(log.read_text())


def slowest(text: str) -> list[tuple[int, str]]:
    """The modules that took longest by themselves, of what -X importtime prints."""
    found = re.findall(r"^import time: +(\d+) \| +\d+ \| +(\S+)$", text, re.MULTILINE)
    return sorted(((int(own), name) for own, name in found), reverse=True)[:SHOWN]


def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
    figures: command.Figures = {"servers": {}}
    small, large = Starts(folder / "small", 0, options), Starts(folder / "large", options.names, options)
    for title, starts, times in (("small zone", small, options.times), ("large zone", large, options.large_times)):
        found = [starts.both() for _ in range(times)]
        for name in found[0]:
            column = [one[name] for one in found]
            figures["servers"].setdefault(name, {})[title] = {
                "median_ms": round(statistics.median(ms for ms, _ in column), 1),
                "most_ms": round(max(ms for ms, _ in column), 1),
                "rss_mb": round(max(rss for _, rss in column) / 1e6, 1),
            }
    figures["names"] = options.names
    figures["imports"] = small.imports() if options.imports else []
    return figures


def show(figures: command.Figures, console: Console) -> None:
    rows = [
        (f"{name}, {title}", *found.values())
        for name, titles in figures["servers"].items()
        for title, found in titles.items()
    ]
    heads = ("server", "median ms", "most ms", "RSS MB")
    console.print(command.table(f"exec to first answer; large zone: {figures['names']} names", heads, rows))
    if figures["imports"]:
        rows = [(name, own) for own, name in figures["imports"]]
        console.print(command.table("longest imports", ("module", "us by itself"), rows))
    console.print(command.noted(figures))


def main() -> int:
    made = command.parser("startup", __doc__, TAKES, "--times 21 --imports")
    command.bound(made, "--times", int, 1, 200, 9, "starts of each server with the small zone")
    command.bound(made, "--large-times", int, 1, 20, 1, "starts of each server with the large zone")
    command.bound(made, "--names", int, 1, 1_000_000, 100_000, "names of the large zone")
    made.add_argument("--imports", action="store_true", help="list the modules that take longest to import")
    return command.run(made, measure, show)


if __name__ == "__main__":
    sys.exit(main())

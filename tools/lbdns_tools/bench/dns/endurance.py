"""Endurance: millions of queries against one lbdns, good ones mixed with random names and malformed datagrams.

Resident memory is read every second. The first tenth of the run is warm-up: interpreter and kernel settle, tables fill.
After it memory has to stay: the slope is told in kB a million queries, by least squares.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console

from lbdns_tools.bench.dns import command
from lbdns_tools.bench.dns.dnsperf import MARGIN, Run, beside, write_queries
from lbdns_tools.bench.dns.farm import BEST, ROUND_ROBIN, Farm
from lbdns_tools.bench.dns.junk import flooding, questions
from lbdns_tools.bench.dns.servers import Served, serving_lbdns

TAKES: Final = "about 15 minutes at 25,000 queries/s"
NAMES: Final = 100_000  # random names in the file, as many good queries beside them
MILLION: Final = 1_000_000
STEP: Final = 1.0  # seconds between two looks at memory
WARM_UP: Final = 0.1  # of the run
JUNK_RATE: Final = 200.0  # malformed datagrams/s
SLOWEST: Final = 2000.0  # queries/s: a run that is slower than this is given up


def query_file(folder: Path, seed: int) -> Path:
    """Random names, and good queries between them."""
    good = itertools.cycle(
        (BEST, ROUND_ROBIN, ("best.hobbit", "AAAA"), ("gandalf.hobbit", "A"), ("weighted.hobbit", "A"))
    )
    mixed = (question for pair in zip(questions(seed, NAMES), good, strict=False) for question in pair)
    return write_queries(folder / "queries", mixed)


def endure(served: Served, queries: Path, options: argparse.Namespace) -> command.Figures:
    runs = max(1, round(options.millions * MILLION / (2 * NAMES)))
    total = runs * 2 * NAMES
    limit = total / SLOWEST + MARGIN
    samples, begin = [(0.0, served.running.rss())], time.monotonic()
    lines = served.running.log_lines()
    run = Run(served.port, queries, options.load_core, runs=runs, seconds=limit)
    with flooding(served.port, options.load_core, options.seed, limit, JUNK_RATE), beside(run) as background:
        while not background.ended:
            time.sleep(STEP)
            samples.append((time.monotonic() - begin, served.running.rss()))
        found = background.result(1)
    warm = [sample for sample in samples if sample[0] >= WARM_UP * samples[-1][0]]
    return {
        "queries": found.sent,
        "lost": found.lost,
        "queries_per_s": round(found.rate),
        "rcodes": found.rcodes,
        "rss_begin_mb": round(samples[0][1] / 1e6, 2),
        "rss_warm_mb": round(warm[0][1] / 1e6, 2),
        "rss_most_mb": round(max(rss for _, rss in samples) / 1e6, 2),
        "rss_end_mb": round(samples[-1][1] / 1e6, 2),
        "slope_kb_per_million": slope(warm, found.rate),
        "log_lines": served.running.log_lines() - lines,
    }


def slope(samples: list[tuple[float, int]], rate: float) -> float:
    """Growth in kB a million queries, of (seconds, bytes) at ``rate`` queries/s."""
    if len(samples) < 2:
        return 0.0
    seconds, sizes = zip(*samples, strict=True)
    return round(statistics.linear_regression(seconds, sizes).slope / rate * MILLION / 1000, 2)


def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
    queries = query_file(folder, options.seed)
    with serving_lbdns(Farm(folder, plane=options.plane), options.server_core) as served:
        return {"note": served.note, **endure(served, queries, options)}


def show(figures: command.Figures, console: Console) -> None:
    rows = [(name.replace("_", " "), value) for name, value in figures.items() if name not in ("note", "python")]
    console.print(command.table("endurance", ("", "lbdns"), rows))
    console.print(command.noted(figures))


def main() -> int:
    made = command.parser("endurance", __doc__, TAKES, "--millions 20 --json endurance.json")
    command.bound(made, "--millions", float, 0.2, 500, 20, "million queries")
    command.bound(made, "--seed", int, 0, 2**31, 1, "of random names and malformed datagrams")
    return command.run(made, measure, show)


if __name__ == "__main__":
    sys.exit(main())

"""Sends millions of queries and many malformed datagrams to lbdns, and measures its memory use.

The benchmark reads the server's resident memory every second. The first tenth of the run is a warm-up, during which
caches and tables fill. After the warm-up, memory use must not grow. The results include the growth of memory use in kB
per million queries (least-squares slope).
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import string
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BEST, ROUND_ROBIN, BenchmarkFarm
from lbdns_tools.bench.dns.compared_servers import MeasuredServer, serving_lbdns
from lbdns_tools.bench.dns.dnsperf import MARGIN, DnsperfRun, dnsperf_beside, parse_statistics, write_queries
from lbdns_tools.bench.dns.malformed_flood import flooding

TAKES: Final = "about 15 minutes if the server answers 25,000 queries/s"
EXAMPLE: Final = "--millions 20 --json endurance.json"
NAMES: Final = 100_000  # random names in the file, with as many good queries
MILLION: Final = 1_000_000
STEP: Final = 1.0  # seconds between two readings of the memory
WARM_UP: Final = 0.1  # share of the run
JUNK_RATE: Final = 200.0  # malformed datagrams/s
SLOWEST: Final = 2000.0  # queries/s; a slower run ends early
TYPES: Final = ("A", "AAAA", "TXT", "MX", "SRV", "NS", "SOA", "CAA", "DS", "ANY", "HTTPS", "PTR")


def questions(seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Yield random names, inside and outside the zone, each paired with a random query type from TYPES."""
    chance = random.Random(seed)
    letters = string.ascii_letters + string.digits + "-_"
    for _ in range(count):
        labels = ["".join(chance.choices(letters, k=chance.randrange(1, 40))) for _ in range(chance.randrange(1, 4))]
        end = chance.choice(("hobbit", "hobbit", "best.hobbit", "round.robin.hobbit", "example.net"))
        yield ".".join((*labels, end)), chance.choice(TYPES)


def query_file(folder: Path, seed: int) -> Path:
    """Write a query file that alternates between random and existing names, and return its path."""
    good = itertools.cycle(
        (BEST, ROUND_ROBIN, ("best.hobbit", "AAAA"), ("gandalf.hobbit", "A"), ("weighted.hobbit", "A"))
    )
    mixed = (question for pair in zip(questions(seed, NAMES), good, strict=False) for question in pair)
    return write_queries(folder / "queries", mixed)


def endure(server: MeasuredServer, queries: Path, options: argparse.Namespace) -> command.Results:
    runs = max(1, round(options.millions * MILLION / (2 * NAMES)))
    total = runs * 2 * NAMES
    limit = total / SLOWEST + MARGIN
    samples, begin = [(0.0, server.process.rss())], time.monotonic()
    lines = server.process.log_lines()
    run = DnsperfRun(server.port, queries, options.load_core, runs=runs, seconds=limit)
    flood = flooding(server.port, options.load_core, options.seed, limit, queries.with_suffix(".flood"), JUNK_RATE)
    with flood, dnsperf_beside(run) as load:
        while not load.ended:
            time.sleep(STEP)
            samples.append((time.monotonic() - begin, server.process.rss()))
        found = parse_statistics(load.output(1))
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
        "log_lines": server.process.log_lines() - lines,
    }


def slope(samples: list[tuple[float, int]], rate: float) -> float:
    """Return the memory growth in kB per million queries, from ``samples`` (seconds, bytes) at ``rate`` queries/s."""
    if len(samples) < 2:
        return 0.0
    seconds, sizes = zip(*samples, strict=True)
    return round(statistics.linear_regression(seconds, sizes).slope / rate * MILLION / 1000, 2)


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    queries = query_file(folder, options.seed)
    with serving_lbdns(BenchmarkFarm(folder, plane=options.plane), options.server_core) as server:
        return {"note": server.note, **endure(server, queries, options)}


def tables(results: command.Results) -> command.Tables:
    return [command.figures("endurance", results)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--millions", float, 0.2, 500, 20, "number of queries in millions")
    command.add_number(parser, "--seed", int, 0, 2**31, 1, "seed for the random names and the malformed datagrams")
    command.add_dns_options(parser)

"""Measures the cost of scraping /metrics on a server with many members, and the delay of queries during a scrape.

The benchmark runs in a single process without a network. The scraped status contains a report from each member. For
comparison, the benchmark also measures the time that prometheus_client needs for the same metrics. The figure 'work' is
the CPU time of a scrape. A scrape runs in steps, so a query waits no longer than the longest step takes.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector as Registry

from lbdns.answering.answer_table import AnswerTable
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm
from lbdns.model.farm_reader import load_farm
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.server.local_answerer import LocalAnswerer
from lbdns.server.server_status import ServerStatus
from lbdns_collector.prometheus.exposition import exposition_text, in_slices
from lbdns_collector.prometheus.status_families import metric_families
from lbdns_shared.metric_catalogue import STANDARD_METRICS
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import ZONE_HEAD, address_records, pool_table

TAKES: Final = "about 10 s"
EXAMPLE: Final = "--members 1000 --pools 5"
TIMES: Final = 15  # scrapes
PLANNING: Final = 60.0  # seconds that the first plans may take


class _Registry(Registry):
    def __init__(self, source: ServerStatus) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        return metric_families(self._source)


def make_farm(folder: Path, pools: int, members: int) -> Farm:
    """Write a configuration with a total of ``members`` members in ``pools`` pools, and return the farm that it
    defines."""
    names = [[f"m{number}" for number in range(pool, members, pools)] for pool in range(pools)]
    (folder / "farm.zone").write_text(ZONE_HEAD + address_records(f"m{number}" for number in range(members)))
    text = f'[web]\nmax_member_series = {members}\n[[zone]]\nname = "farm"\nfile = "farm.zone"\n'
    for number, inside in enumerate(names):
        owners = ", ".join(f'"{p.replace("_", "-")}{number}" = "{p}"' for p in ("best", "round_robin", "weighted"))
        text += pool_table(f"pool{number}", "farm", inside, owners)
    path = folder / "lbdns.toml"
    path.write_text(text)
    return load_farm(path)


async def median_scrape(farm: Farm) -> command.Results:
    """Run several scrapes and return the figures for the scrape with the median CPU time."""
    events = EventLog()
    answerer = LocalAnswerer(AnswerTable(farm), events=events)
    source = ServerStatus(farm, answerer, events)
    try:
        metrics = dict.fromkeys(STANDARD_METRICS, 1.0)
        names = [member.full_name for pool in farm.pools for member in pool.members]
        now = time.monotonic()
        answerer.deliver(
            Snapshot(1, {name: Reading(received=now, interval=3600.0, score=50, metrics=metrics) for name in names})
        )
        async with asyncio.timeout(PLANNING):
            while any(answerer.planner.failing_open.values()):  # noqa: ASYNC110  the planner has no event for that
                await asyncio.sleep(0.01)
        scrapes = [await _scrape(source, len(names)) for _ in range(TIMES)]
        return sorted(scrapes, key=lambda figures: figures["work_ms"])[TIMES // 2]
    finally:
        await answerer.stop()


async def _scrape(source: ServerStatus, members: int) -> command.Results:
    longest = work = 0.0
    text = b""
    began = time.thread_time()
    for step in exposition_text(metric_families(source)):
        took = time.thread_time() - began
        longest, work = max(longest, took), work + took
        text += step
        began = time.thread_time()
    requested = time.perf_counter()
    await in_slices(exposition_text(metric_families(source)))
    response = time.perf_counter() - requested
    began = time.thread_time()
    generate_latest(_Registry(source))
    theirs = time.thread_time() - began
    return {
        "members": members,
        "samples": sum(not line.startswith(b"#") for line in text.splitlines()),
        "bytes": len(text),
        "work_ms": round(1000 * work, 2),
        "longest_step_ms": round(1000 * longest, 2),
        "response_ms": round(1000 * response, 2),  # from request to response, with the pauses for queries
        "prometheus_client_ms": round(1000 * theirs, 2),
    }


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    return asyncio.run(median_scrape(make_farm(folder, options.pools, options.members)))


def tables(results: command.Results) -> command.Tables:
    return [command.figures(f"scrape of /metrics (median of {TIMES} scrapes)", results)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--members", int, 1, 10_000, 1000, "total number of members across all pools")
    command.add_number(parser, "--pools", int, 1, 1000, 5, "number of pools")

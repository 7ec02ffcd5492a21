"""What a scrape of /metrics costs a server with many members, and how long queries have to wait for a part of it.

``python -m lbdns_tools.bench.scrape [--members 1000] [--pools 5] [--json]``

In one process and without a network: the server's own source of figures, with a report of each member. It is compared
with prometheus_client's own way to text. Work is CPU time; the longest slice is what a query may have to wait.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector as Registry

from lbdns.answering.table import Table
from lbdns.events import Events
from lbdns.farm import Farm, load_farm
from lbdns.metrics import CATALOGUE
from lbdns.server.alone import Alone
from lbdns.server.source import ServerSource
from lbdns.snapshot import Reading, Snapshot
from lbdns_collector.web.exposition import in_slices, written
from lbdns_collector.web.metrics import metric_families

TIMES: Final = 15
PLANNING: Final = 60.0  # s that the first plans may take


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out; times in milliseconds, of the median scrape."""

    members: int
    samples: int
    bytes: int
    work_ms: float
    longest_step_ms: float
    until_it_is_told_ms: float  # with the pauses for others
    prometheus_client_ms: float


class _Registry(Registry):
    def __init__(self, source: ServerSource) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        return metric_families(self._source)


def make_farm(folder: Path, pools: int, members: int) -> Farm:
    """``members`` in all."""
    names = [[f"m{number}" for number in range(pool, members, pools)] for pool in range(pools)]
    zone = ["$TTL 60", "@ SOA ns hostmaster 1 3600 600 86400 60", "@ NS ns", "ns A 127.0.0.1"]
    zone += [f"m{number} A 10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}" for number in range(members)]
    (folder / "farm.zone").write_text("\n".join(zone) + "\n")
    text = f'[web]\nmax_member_series = {members}\n[[zone]]\nname = "farm"\nfile = "farm.zone"\n'
    for number, inside in enumerate(names):
        owners = ", ".join(f'"{p.replace("_", "-")}{number}" = "{p}"' for p in ("best", "round_robin", "weighted"))
        text += (
            f'[[pool]]\nname = "pool{number}"\nzone = "farm"\nmembers = {json.dumps(inside)}\nnames = {{ {owners} }}\n'
        )
    path = folder / "lbdns.toml"
    path.write_text(text)
    return load_farm(path)


async def measure(farm: Farm) -> Figures:
    events = Events()
    alone = Alone(Table(farm), events=events)
    source = ServerSource(farm, alone, events)
    try:
        metrics = dict.fromkeys(CATALOGUE, 1.0)
        names = [member.full_name for pool in farm.pools for member in pool.members]
        now = time.monotonic()
        alone.deliver(
            Snapshot(1, {name: Reading(received=now, interval=3600.0, score=50, metrics=metrics) for name in names})
        )
        async with asyncio.timeout(PLANNING):
            while any(alone.planner.failing_open.values()):  # noqa: ASYNC110  it has no event for that
                await asyncio.sleep(0.01)
        scrapes = [await _scrape(source, len(names)) for _ in range(TIMES)]
        return sorted(scrapes, key=lambda figures: figures.work_ms)[TIMES // 2]
    finally:
        await alone.stop()


async def _scrape(source: ServerSource, members: int) -> Figures:
    longest = work = 0.0
    text = b""
    began = time.thread_time()
    for step in written(metric_families(source)):
        took = time.thread_time() - began
        longest, work = max(longest, took), work + took
        text += step
        began = time.thread_time()
    whole = time.perf_counter()
    await in_slices(written(metric_families(source)))
    whole = time.perf_counter() - whole
    began = time.thread_time()
    generate_latest(_Registry(source))
    theirs = time.thread_time() - began
    samples = sum(not line.startswith(b"#") for line in text.splitlines())
    return Figures(members, samples, len(text), *(round(1000 * t, 2) for t in (work, longest, whole, theirs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--pools", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(make_farm(Path(folder), options.pools, options.members)))
    if options.json:
        print(json.dumps(asdict(found)))
        return
    print(f"{found.members} members: {found.samples} samples, {found.bytes / 1000:.0f} kB")
    print(f"work {found.work_ms:.1f} ms, in steps of at most {found.longest_step_ms:.2f} ms")
    print(f"told after {found.until_it_is_told_ms:.0f} ms, with pauses for others")
    print(f"prometheus_client's own way: {found.prometheus_client_ms:.1f} ms at once")


if __name__ == "__main__":
    main()

"""How large a day of history is, what recording it costs, and how long its plots take to be read.

``python -m lbdns_tools.bench.history_size [--members 200] [--pools 1] [--hours 24] [--file PATH] [--json]``

Drives the real recorder through virtual time, a sample a second and a commit every five, as fast as it goes. Every
member reports all metrics of the catalogue, every second. The load goes up and down over the day, with noise on every
figure, as a real sensor has it: counts are whole numbers, percentages have two decimals, nothing repeats.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from math import pi, sin
from pathlib import Path
from random import Random
from typing import Final

from lbdns.config.history import HistoryConfig
from lbdns.history.history import COMMIT_EVERY
from lbdns.history.reader import Reader
from lbdns.history.recorder import Recorder
from lbdns.history.sample import PoolSample, Sample
from lbdns.history.tiers import TIERS
from lbdns.liveness import State
from lbdns.metrics import CATALOGUE
from lbdns.snapshot import Reading

TARGET: Final = 200e6  # bytes for 200 members at 1 s for a day
BEGIN: Final = 1_800_000_000.0  # Unix seconds
MAX_SECONDS: Final = 1.0  # for one plot
CORES: Final = 4
USABLE: Final[State] = "usable"


@dataclass(frozen=True, slots=True)
class Figures:
    """Sizes in bytes, times in seconds."""

    members: int
    pools: int
    hours: float
    bytes: int
    tiers: dict[str, int]  # what the blobs of each take
    written: int  # by this process to the disk, over the whole time; 0 where the kernel doesn't tell
    cpu_s: float  # of recording
    cpu_percent: float  # of one core, had it been real time
    longest_commit_s: float
    reads: dict[str, float]  # seconds by what was asked

    @property
    def met(self) -> bool:
        return self.bytes <= TARGET and max(self.reads.values()) <= MAX_SECONDS


class Host:
    """A member whose figures come of its load, with noise."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._size = chance.uniform(0.5, 2.0)
        self._phase = chance.uniform(0.0, 0.2)
        self._requests, self._cpu, self._memory, self._load = 1e6 * chance.random(), 1e4 * chance.random(), 60.0, 1.0
        self.answers = 0

    def metrics(self, second: int) -> dict[str, float]:
        noise = self._chance.random
        day = 0.45 + 0.35 * sin(2 * pi * (second / 86_400 + self._phase))
        load = max(0.02, min(0.99, day + 0.2 * (noise() - 0.5)))
        requests = int(load * 120 * self._size * (0.8 + 0.4 * noise()))
        busy = int(load * 30 * (0.7 + 0.6 * noise())) + 1
        used = load * CORES * (0.9 + 0.2 * noise())
        self._requests += requests
        self._cpu += round(used, 2)
        self._memory = min(95.0, max(5.0, self._memory + 0.1 * (noise() - 0.5)))
        self._load += (load * CORES - self._load) / 60
        self.answers += requests // 2
        return {
            "run_queue": float(int(load * 6 * noise())),
            "cpu_idle": round(100 * (1 - used / CORES), 2),
            "scan_rate": float(int(300 * noise())) if noise() < 0.05 else 0.0,
            "gateway_ping": 0.15 + 0.4 * noise() * noise(),
            "requests_per_s": requests / (1 + 0.002 * (noise() - 0.5)),
            "busy_workers": float(busy),
            "idle_workers": float(max(0, 40 - busy)),
            "requests_total": self._requests,
            "httpd_cpu_seconds": self._cpu,
            "cpu_count": float(CORES),
            "load1": round(self._load, 2),
            "cpu_steal": round(0.5 * noise(), 2) if noise() < 0.2 else 0.0,
            "mem_available": round(self._memory, 2),
            "disk_busy": round(20 * load * noise(), 2),
            "disk_await": 0.3 + 2 * noise() * noise(),
            "listen_queue": float(int(3 * noise())) if noise() < 0.05 else 0.0,
            "net_rx": requests * 700 * (0.8 + 0.4 * noise()),
            "net_tx": requests * 14_000 * (0.8 + 0.4 * noise()),
        }


def samples(pools: int, members: int, seconds: int) -> Iterator[Sample]:
    """A sample a second; ``members`` of each pool."""
    chance = Random(1)
    hosts = [[Host(chance) for _ in range(members)] for _ in range(pools)]
    assert hosts[0][0].metrics(0).keys() == CATALOGUE.keys()
    names = tuple(f"web{number}" for number in range(members))
    offsets = [chance.random() for _ in range(members)]
    asked = {"A": 0, "AAAA": 0, "HTTPS": 0}
    for second in range(seconds):
        now = second + 0.002 * chance.random()
        found = []
        for number, pool in enumerate(hosts):
            readings = tuple(
                Reading(second - offset - 0.001 * chance.random(), 1.0, int(80 * chance.random()), host.metrics(second))
                for host, offset in zip(pool, offsets, strict=True)
            )
            answers = tuple(host.answers for host in pool)
            states = (USABLE,) * members
            found.append(PoolSample(f"pool{number}", "farm", {"best": "best"}, names, readings, states, answers))
        for name in asked:
            asked[name] += int(500 * chance.random())
        yield Sample(BEGIN + now, now, 3.0, tuple(found), dict(asked), {"NOERROR": sum(asked.values())})


def measure(path: Path, pools: int, members: int, seconds: int) -> Figures:
    recorder = Recorder(path, HistoryConfig())
    written, cpu, longest = _written(), 0.0, 0.0
    for number, sample in enumerate(samples(pools, members, seconds), 1):
        before = time.process_time()
        recorder.take(sample)
        if number % COMMIT_EVERY == 0:
            begun = time.perf_counter()
            recorder.commit()
            longest = max(longest, time.perf_counter() - begun)
        cpu += time.process_time() - before
    recorder.finish()
    return Figures(
        members=members,
        pools=pools,
        hours=round(seconds / 3600, 3),
        bytes=sum(entry.stat().st_size for entry in path.parent.glob(f"{path.name}*")),
        tiers=_tiers(path),
        written=_written() - written,
        cpu_s=round(cpu, 1),
        cpu_percent=round(100 * cpu / seconds, 2),
        longest_commit_s=round(longest, 3),
        reads=_reads(path, members, seconds),
    )


def _tiers(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            tier.name: connection.execute(f"SELECT coalesce(sum(length(data)), 0) FROM {tier.table}").fetchone()[0]
            for tier in TIERS
        }


def _written() -> int:
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("write_bytes")), 0)


def _reads(path: Path, members: int, seconds: int) -> dict[str, float]:
    """How long plots of 600 points take, for three members and for all."""
    end = BEGIN + seconds
    found = {}
    few = [f"web{number}" for number in range(min(3, members))]
    for name, span in (("10 min", 600), ("1 h", 3600), ("6 h", 6 * 3600), ("1 d", 86_400)):
        for wanted in (few, []):
            for metric in ("cpu_idle", "answers"):
                begun = time.perf_counter()
                series = Reader(path).series("pool0", metric, wanted, end - min(span, seconds), end, 600)
                took = time.perf_counter() - begun
                key = f"{metric}, {name}, {len(series.series)} members, {len(series.times)} points of {series.tier}"
                found[key] = round(took, 3)
    return found


def show(found: Figures) -> str:
    megabytes = {name: f"{size / 1e6:.1f}" for name, size in found.tiers.items()}
    lines = [
        f"{found.pools} x {found.members} members, {found.hours:g} h of reports every second:",
        f"  file      {found.bytes / 1e6:8.1f} MB (target: {TARGET / 1e6:g}); blobs, MB: "
        + ", ".join(f"{name} {size}" for name, size in megabytes.items()),
        f"  recording {found.cpu_s:8.1f} s of CPU, {found.cpu_percent:.2f} % of a core; "
        f"longest commit {1000 * found.longest_commit_s:.0f} ms",
        f"  written   {found.written / 1e6:8.0f} MB, {found.written / 3.6e6 / max(found.hours, 1e-9):.1f} kB/s",
    ]
    lines += [f"  read in   {1000 * took:8.0f} ms: {what}" for what, took in found.reads.items()]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lbdns_tools.bench.history_size", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--members", type=int, default=200, help="of a pool; default: 200")
    parser.add_argument("--pools", type=int, default=1, help="default: 1")
    parser.add_argument("--hours", type=float, default=24.0, help="default: 24")
    parser.add_argument("--file", type=Path, help="keep the history there")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args()
    if options.file is not None and options.file.exists():
        parser.error(f"--file: {options.file} is there already")
    with tempfile.TemporaryDirectory(prefix="lbdns-bench-") as folder:
        path = options.file or Path(folder) / "history.db"
        found = measure(path, options.pools, options.members, max(60, round(options.hours * 3600)))
    print(json.dumps(asdict(found)) if options.json else show(found))
    return 0 if found.met else 1


if __name__ == "__main__":
    sys.exit(main())

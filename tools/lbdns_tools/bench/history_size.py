"""Measures the size of one day's history, the cost of recording it, and the time needed to read plot data.

The benchmark runs the real recorder at full speed, with one sample per second and one commit per five seconds of
virtual time. Every member reports all standard metrics every second. The load rises and falls during the day.
The metrics are as noisy as those from real sensors: counts are whole numbers, percentages have two decimal places, and
no pattern repeats.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from math import pi, sin
from pathlib import Path
from random import Random
from typing import Final

from lbdns.config.recording_sections import HistoryConfig
from lbdns.history.history_chunk import TIERS
from lbdns.history.history_reader import HistoryReader
from lbdns.history.history_recorder import HistoryRecorder
from lbdns.history.history_sample import HistorySample, PoolHistorySample
from lbdns.history.live_history import COMMIT_EVERY
from lbdns.model.liveness import State
from lbdns.model.snapshot import Reading
from lbdns_shared.metric_catalogue import STANDARD_METRICS
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.measured_processes import BenchmarkError

TAKES: Final = "about 10 minutes (proportional to --hours x --members)"
EXAMPLE: Final = "--members 50 --hours 1"
TARGET: Final = 200e6  # bytes for a day of 200 members that report every second
BEGIN: Final = 1_800_000_000.0  # Unix seconds
MAX_SECONDS: Final = 1.0  # for one plot
TARGET_TEXT: Final = f"at most {TARGET / 1e6:g} MB in size, and at most {MAX_SECONDS:g} s to read a plot"
CORES: Final = 4
USABLE: Final[State] = "usable"


class SyntheticMember:
    """A member whose metrics follow its load, with random noise."""

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


def samples(pools: int, members: int, seconds: int) -> Iterator[HistorySample]:
    """Yield one sample per second for ``seconds``, with ``members`` members in each pool."""
    chance = Random(1)
    hosts = [[SyntheticMember(chance) for _ in range(members)] for _ in range(pools)]
    assert hosts[0][0].metrics(0).keys() == STANDARD_METRICS.keys()
    names = tuple(f"web{number}" for number in range(members))
    offsets = [chance.random() for _ in range(members)]
    queries = {"A": 0, "AAAA": 0, "HTTPS": 0}
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
            found.append(PoolHistorySample(f"pool{number}", "farm", {"best": "best"}, names, readings, states, answers))
        for name in queries:
            queries[name] += int(500 * chance.random())
        yield HistorySample(BEGIN + now, now, 3.0, tuple(found), dict(queries), {"NOERROR": sum(queries.values())})


def record_history(path: Path, pools: int, members: int, seconds: int) -> command.Results:
    """Record ``seconds`` of virtual time in ``path``, and then measure how long reading plot data takes. All sizes in
    the result are in bytes."""
    recorder = HistoryRecorder(path, HistoryConfig())
    written, cpu, longest = _bytes_written(), 0.0, 0.0
    for number, sample in enumerate(samples(pools, members, seconds), 1):
        before = time.process_time()
        recorder.add_sample(sample)
        if number % COMMIT_EVERY == 0:
            begun = time.perf_counter()
            recorder.commit()
            longest = max(longest, time.perf_counter() - begun)
        cpu += time.process_time() - before
    recorder.finish()
    size = sum(entry.stat().st_size for entry in path.parent.glob(f"{path.name}*"))
    reads = _read_times(path, members, seconds)
    return {
        "members": members,
        "pools": pools,
        "hours": round(seconds / 3600, 3),
        "bytes": size,
        "tiers": _tier_sizes(path),
        "written": _bytes_written() - written,
        "cpu_s": round(cpu, 1),
        "cpu_percent": round(100 * cpu / seconds, 2),  # of one core, if the recording ran in real time
        "longest_commit_s": round(longest, 3),
        "reads": reads,
        "met": size <= TARGET and max(reads.values()) <= MAX_SECONDS,
    }


def _tier_sizes(path: Path) -> dict[str, int]:
    """Return the total size of each tier's blobs, in bytes."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            tier.name: connection.execute(f"SELECT coalesce(sum(length(data)), 0) FROM {tier.table}").fetchone()[0]
            for tier in TIERS
        }


def _bytes_written() -> int:
    """Return the number of bytes that this process has written to disk, or 0 if the kernel does not count them."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("write_bytes")), 0)


def _read_times(path: Path, members: int, seconds: int) -> dict[str, float]:
    """Read plots of up to 600 points for several time spans and metrics, each for three members and for all members.

    Return the time that each read took, in seconds, keyed by a description of the plot.
    """
    end = BEGIN + seconds
    found = {}
    three = [f"web{number}" for number in range(min(3, members))]
    for name, span in (("10 min", 600), ("1 h", 3600), ("6 h", 6 * 3600), ("1 d", 86_400)):
        for shown in (three, []):
            for metric in ("cpu_idle", "answers"):
                begun = time.perf_counter()
                series = HistoryReader(path).series("pool0", metric, shown, end - min(span, seconds), end, 600)
                took = time.perf_counter() - begun
                key = f"{metric}, {name}, {len(series.series)} members, {len(series.times)} points of {series.tier}"
                found[key] = round(took, 3)
    return found


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    path = options.file or folder / "history.db"
    if path.exists():
        raise BenchmarkError(f"--file: {path}: the file already exists; specify a new file")
    return record_history(path, options.pools, options.members, max(60, round(options.hours * 3600)))


def tables(results: command.Results) -> command.Tables:
    return [
        command.figures(
            "history of members that report every second (sizes in bytes; time to read each plot in s)", results
        )
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--members", int, 1, 10_000, 200, "number of members per pool")
    command.add_number(parser, "--pools", int, 1, 1000, 1, "number of pools")
    command.add_number(parser, "--hours", float, 0.01, 1000, 24, "hours of history")
    parser.add_argument("--file", type=Path, help="keep the recorded history in FILE, which must not exist yet")

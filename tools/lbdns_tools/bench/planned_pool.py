"""A pool that a real planner plans, on an event loop whose clock counts CPU time and skips pauses.

The benchmark ``planning_cost`` runs ``main`` in a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, cast

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.plane import choose_plane
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm
from lbdns.model.farm_reader import load_farm
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.model.snapshot_maker import SnapshotMaker
from lbdns.planning.planner import Planner
from lbdns_tools.bench.dns.benchmark_farm import ZONE_HEAD, address_records, pool_table

ROUND: Final = 2.0  # s between two plans, on the loop's clock: the planner's pauses are over
CORES: Final = (1.0, 2.0, 4.0, 8.0)  # of the members, in turn
ANSWERS: Final = 200  # between two plans
WARM_UP: Final = 20  # rounds: slow start ends, capacities become known


class CpuTimeLoop:
    """An event loop that records the CPU time of each callback. Its clock counts this thread's CPU time; if no callback
    is due, it skips the time until the next one is.

    It has only the methods that the planner needs.
    """

    def __init__(self) -> None:
        self.turns: list[float] = []  # CPU seconds of each callback so far
        self._skipped = 1000.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._number = 0

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        """The loop, as the planner expects it."""
        return cast(asyncio.AbstractEventLoop, self)

    def time(self) -> float:
        return self._skipped + time.thread_time()

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        return self.call_at(self.time(), callback, *args)

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self.as_loop)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def measure(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` as one turn."""
        began = time.thread_time()
        callback()
        self.turns.append(time.thread_time() - began)

    def advance(self, seconds: float) -> None:
        """Advance the clock without running callbacks."""
        self._skipped += seconds

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """Run callbacks until ``is_over`` returns true."""
        while not is_over():
            when, _, handle = heapq.heappop(self._timers)
            if handle.cancelled():
                continue
            self._skipped += max(0.0, when - self.time())
            self.measure(handle._run)


def make_farm(folder: Path, members: int, plane: str) -> Farm:
    """Write a configuration with a pool of ``members`` members, and return the farm that it defines."""
    names = [f"m{number}" for number in range(members)]
    (folder / "farm.zone").write_text(ZONE_HEAD + address_records(names))
    text = f'[server]\nplane = "{plane}"\n[[zone]]\nname = "farm"\nfile = "farm.zone"\n'
    path = folder / "lbdns.toml"
    path.write_text(text + pool_table("web", "farm", names, '"best" = "best"'))
    return load_farm(path)


class PlannedPool:
    """A pool whose members report the figures of a busy web server, and its planner."""

    def __init__(self, farm: Farm, interval: float) -> None:
        """``interval`` is the number of seconds between two reports of one member."""
        self.loop, self._chance, self._interval = CpuTimeLoop(), Random(1), interval
        (self._pool,) = farm.pools
        self._table = AnswerTable(farm, choose_plane(farm.config.server.plane))
        self.cursor = self._table.cursors["web", "best"]
        self.planner = Planner(farm, self._table.cursors, self.loop.as_loop, events=EventLog())
        self._snapshots = SnapshotMaker()
        self._served = [0.0] * len(self._pool.members)
        self._planned = 0
        self.planner.subscribe(self._note)

    def _note(self) -> None:
        self._planned = self.planner.snapshot.version

    def report(self, first: int, count: int) -> Snapshot:
        """Return a snapshot with new readings of ``count`` members, beginning with the one at index ``first``."""
        now, members = self.loop.time(), self._pool.members
        readings: dict[str, Reading] = {}
        for number in range(first, first + count):
            i = number % len(members)
            cores, used = CORES[i % len(CORES)], self._chance.uniform(0.4, 0.8)
            rate = 50 * cores * used  # requests/s
            self._served[i] += round(rate * self._interval)
            metrics = {
                "cpu_count": cores,
                "busy_workers": float(round(2 * cores * used)),
                "run_queue": float(round(cores * used)),
                "requests_per_s": rate,
                "requests_total": self._served[i],
                "httpd_cpu_seconds": self._served[i] / (40 + 10 * (i % 7)),
                "cpu_idle": 100 * (1 - used),
            }
            readings[members[i].full_name] = Reading(now, self._interval, int(100 * (1 - used)), metrics)
        self._snapshots.update(readings)
        return self._snapshots.make()

    def plan(self, snapshot: Snapshot) -> Sequence[float]:
        """Plan the pool after ``snapshot``, and return the CPU seconds of each turn."""
        for _ in range(ANSWERS):
            self.cursor.next()
        self.loop.turns.clear()
        self.loop.measure(lambda: self.planner.deliver(snapshot))
        self.loop.run_until(lambda: self._planned == snapshot.version)
        return tuple(self.loop.turns)


def measure_plans(farm: Farm, fresh: float, rounds: int) -> dict[str, float]:
    """Return the CPU time of plans after reports from the part ``fresh`` of the members, in milliseconds."""
    pool, size = PlannedPool(farm, ROUND / fresh), len(farm.pools[0].members)
    count = max(1, round(fresh * size))
    found: list[Sequence[float]] = []
    for number in range(WARM_UP + rounds):
        first, reporting = (0, size) if number < WARM_UP else (number * count, count)
        pool.loop.advance(ROUND)
        snapshot = pool.report(first, reporting)
        gc.collect()
        turns = pool.plan(snapshot)
        if number >= WARM_UP:
            found.append(turns)
    longest = [max(turns) for turns in found]
    return {
        "plan_ms": round(1000 * statistics.median(map(math.fsum, found)), 3),
        "longest_turn_ms": round(1000 * statistics.median(longest), 3),
        "worst_turn_ms": round(1000 * max(longest), 3),
        "turns": statistics.median(map(len, found)),
    }


def main(arguments: Sequence[str]) -> None:
    """Measure a pool, and print the figures as JSON. ``arguments`` are the plane, the number of members, the part of
    them that report, the number of rounds, and a folder for the configuration."""
    plane, members, fresh, rounds, folder = arguments
    farm = make_farm(Path(folder), int(members), plane)
    print(json.dumps(measure_plans(farm, float(fresh), int(rounds))))

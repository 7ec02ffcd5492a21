"""Tests that events are not lost when all members of a large farm change at the same moment."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lbdns.config.recording_sections import HistoryConfig
from lbdns.events.event_log import EventLog
from lbdns.history import live_history as module
from lbdns.history.history_reader import HistoryReader
from lbdns.history.live_history import MAX_EVENTS, LiveHistory
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.planning.planner import Planner
from lbdns_shared import log
from tests.answering.farms import HOBBIT, make_farm, pool
from tests.history.test_live_history import QUICK, told, until

POOLS, MEMBERS = 100, 1000
MOST_MEMORY = 200  # MB; measured are some 60


def in_file(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM events WHERE kind = 'state'").fetchone()
    return int(count)


class LoopWatch:
    """Measures how long other work keeps the event loop from running its callbacks."""

    def __init__(self) -> None:
        self.longest = 0.0  # s
        self.longest_cpu = 0.0  # s of CPU time of this thread, which other programs cannot lengthen
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            began, cpu = time.monotonic(), time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.monotonic() - began)
            self.longest_cpu = max(self.longest_cpu, time.thread_time() - cpu)
            await asyncio.sleep(0.001)

    def stop(self) -> None:
        self._task.cancel()


def resident() -> float:
    """Return the largest memory use of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def all_at_once(path: Path) -> dict[str, float]:
    """Let 100,000 members appear in the same snapshot of a planner, and return what this costs."""
    names = [f"m{number}" for number in range(MEMBERS)]
    zone = HOBBIT + "".join(f"m{n} A 127.1.{n // 250}.{n % 250 + 1}\n" for n in range(MEMBERS))
    farm = make_farm({"hobbit": zone}, [pool(f"pool{n}", members=names, names={f"p{n}": "best"}) for n in range(POOLS)])
    loop = asyncio.get_running_loop()
    events = EventLog()
    history = LiveHistory(path, HistoryConfig(), events)
    await history.start()
    planner = Planner(farm, {}, loop, events=events)
    await asyncio.sleep(0.1)
    readings = {f"{name}.hobbit": Reading(loop.time(), 3600.0, 50, {}) for name in names}
    before = resident()
    watch = LoopWatch()
    began = time.monotonic()
    planner.deliver(Snapshot(1, readings))
    await until(lambda: events.counts["state", "info"] >= POOLS * MEMBERS, seconds=120)
    recorded = time.monotonic() - began
    await until(lambda: not history._writer or not history._writer.recorder.unwritten_events, seconds=120)
    watch.stop()
    planner.stop()
    await history.stop()
    return {
        "events": in_file(path), "dropped": history.status.dropped, "memory": resident() - before,
        "stall": watch.longest, "stall_cpu": watch.longest_cpu, "seconds": recorded,
    }  # fmt: skip


def test_100_000_members_that_change_at_once(tmp_path: Path) -> None:
    """In a process of its own, because its memory is measured."""
    code = "from tests.history import test_many_events as t; t.main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", code, str(tmp_path / "history.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    print(figures)
    assert (figures["events"], figures["dropped"]) == (POOLS * MEMBERS, 0)
    assert figures["memory"] < MOST_MEMORY
    assert figures["stall_cpu"] < 0.5
    assert len(done.stderr.splitlines()) < 500


def main() -> None:
    log.set_up()
    sys.setswitchinterval(0.0005)
    print(json.dumps(asyncio.run(all_at_once(Path(sys.argv[1])))))


async def test_events_survive_a_full_disk_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 500)
    events = EventLog()
    way = tmp_path / "state"
    way.write_text("a file is in the way")
    history = LiveHistory(way / "history.db", HistoryConfig(), events, commit_every=QUICK, retry=QUICK)
    await history.start()
    await until(lambda: not history.status.ok)
    await until(lambda: history._writer and history._writer.recorder.unwritten_events == 1)  # that recording failed
    for number in range(700):
        events.record("state", f"change {number}")
    assert history.status.dropped == 201
    way.unlink()
    await until(lambda: len(told(history)) == 2)
    assert "recording resumed; 201 events and 0 samples were lost: " in told(history)[1]
    await history.stop()
    found = HistoryReader(way / "history.db").events(kind="state", limit=1000)
    assert [event.text for event in found] == [f"change {number}" for number in range(499)]


async def test_a_burst_beyond_the_limit_is_reported_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 500)
    events = EventLog()
    history = LiveHistory(tmp_path / "history.db", HistoryConfig(), events, commit_every=QUICK)
    await history.start()
    for number in range(600):
        events.record("state", f"change {number}")
    await until(lambda: told(history))
    (text,) = told(history)
    assert text.endswith("100 events and 0 samples were lost because they arrived faster than they could be written")
    await history.stop()
    assert in_file(tmp_path / "history.db") == 500
    assert MAX_EVENTS == 100_000


async def test_no_event_is_lost_while_the_file_moves(tmp_path: Path) -> None:
    events = EventLog()
    history = LiveHistory(tmp_path / "0.db", HistoryConfig(), events, commit_every=QUICK)
    await history.start()
    count = 0
    for number in range(5):
        moving = asyncio.create_task(history.reconfigure(HistoryConfig(), tmp_path / f"{number + 1}.db"))
        while not moving.done():
            if count < (number + 1) * MAX_EVENTS // 10:  # well below the limit, whatever the machine's speed
                events.record("state", "change")
                count += 1
            await asyncio.sleep(0)
        await moving
    await history.stop()
    assert sum(in_file(tmp_path / f"{number}.db") for number in range(6)) == count

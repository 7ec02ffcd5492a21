# ruff: noqa: ASYNC240  # small files of the test itself
"""Tests of the history of a running program: a thread writes the file, and the event loop never waits for it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.config.recording_sections import HistoryConfig
from lbdns.events.event_log import EventLog, LoggedEvent
from lbdns.history import history_store
from lbdns.history import live_history as module
from lbdns.history.history_reader import HistoryReader
from lbdns.history.live_history import MAX_WAITING, LiveHistory
from lbdns.model.snapshot import Reading
from lbdns_shared.errors import LbdnsError
from tests.history.history_samples import BEGIN, pool, sample
from tests.needs import needs

LIMIT = 20.0  # seconds, for any wait
QUICK = 0.02  # s between commits
OFF = HistoryConfig(on=False)


@asynccontextmanager
async def running(path: Path, config: HistoryConfig | None = None, retry: float = QUICK) -> AsyncIterator[LiveHistory]:
    history = LiveHistory(path, config or HistoryConfig(), EventLog(lambda: BEGIN), commit_every=QUICK, retry=retry)
    await history.start()
    try:
        yield history
    finally:
        await history.stop()


async def until(
    condition: Callable[[], object], also: Callable[[], object] = lambda: None, seconds: float = LIMIT
) -> None:
    """Wait until ``condition`` is true, and call ``also`` repeatedly in the meantime."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what was awaited did not come"
        also()
        await asyncio.sleep(QUICK)


class Seconds:
    """Records the sample of the next second on each call."""

    def __init__(self, history: LiveHistory, begin: int = 0) -> None:
        self.history, self.second = history, begin

    def __call__(self) -> None:
        self.history.record_sample(sample(self.second))
        self.second += 1


def told(history: LiveHistory) -> list[str]:
    return [event.text for event in history._events.newest() if event.kind == "history"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history.db"


async def test_recorded_data_can_be_read_while_it_runs_and_afterwards(file: Path) -> None:
    async with running(file) as history:
        for second in range(30):
            history.record_sample(sample(second))
        await until(lambda: history.status.bytes)
        found = await history.series("web", "cpu_idle", ["a"], BEGIN, BEGIN + 60, 600)
        assert set(found.series["a"]) == {50.0}
        status = history.status  # read once: the thread changes the number of bytes
        assert status == replace(status, on=True, ok=True, error="", dropped=0)
    assert len(HistoryReader(file).series("web", "cpu_idle", [], BEGIN, BEGIN + 60, 600).times) == 30
    assert told(history) == []


async def test_events_are_kept(file: Path) -> None:
    async with running(file) as history:
        history._events.record("reload", "in force")
        history._events.record("state", "gandalf: silent", pool="web", member="gandalf")
    assert [event.text for event in await history.events()] == ["in force", "gandalf: silent"]
    assert [event.member for event in await history.events(0.0, 10, "state")] == ["gandalf"]


async def test_switched_off_it_does_nothing(file: Path) -> None:
    async with running(file, OFF) as history:
        history.record_sample(sample(0))
        history._events.record("reload", "in force")
        assert not history.status.on
    assert not file.parent.exists()


async def test_a_reload_switches_it_on_and_off_and_moves_it(file: Path) -> None:
    other = file.with_name("other.db")
    async with running(file, OFF) as history:
        await history.reconfigure(HistoryConfig())
        history.record_sample(sample(1))
        await history.reconfigure(HistoryConfig(keep_raw=60.0))  # recording continues
        history.record_sample(sample(2))
        await history.reconfigure(HistoryConfig(), other)
        history.record_sample(sample(3))
        await history.reconfigure(OFF)
        history.record_sample(sample(4))
        assert not history.status.on
    assert len(HistoryReader(file).series("web", "score", [], BEGIN, BEGIN + 60, 600).times) == 2
    assert len(HistoryReader(other).series("web", "score", [], BEGIN, BEGIN + 60, 600).times) == 1


async def test_a_folder_that_cannot_be_made_is_logged_once_and_retried(tmp_path: Path) -> None:
    way = tmp_path / "state"
    way.write_text("a file is in the way")
    async with running(way / "history.db") as history:
        record = Seconds(history)
        await until(lambda: history.status.dropped > 5, record)
        assert not history.status.ok
        assert history.status.error
        history._events.record("state", "something happened meanwhile")
        way.unlink()
        await until(lambda: history.status.ok and history.status.bytes, record)
    texts = told(history)
    assert len(texts) == 2
    assert "cannot write the history" in texts[0]
    assert "recording is suspended until writing succeeds again" in texts[0]
    assert "recording resumed" in texts[1]
    # Samples are lost, events are not
    assert "something happened meanwhile" in [event.text for event in await history.events()]


async def test_a_full_disk(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's limit on the number of pages causes the same error as a full disk."""
    connect = sqlite3.connect
    full = True

    def small(*arguments: object, **words: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **words)  # type: ignore[call-overload]
        if full:
            connection.execute("PRAGMA max_page_count = 12")
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    async with running(file) as history:
        record = Seconds(history)
        await until(lambda: not history.status.ok, record)
        assert "full" in history.status.error
        full = False
        await until(lambda: history.status.ok, record)  # the event about the failure has been written
        assert history.status.dropped > 0
        record()
    assert HistoryReader(file).series("web", "score", [], BEGIN, BEGIN + record.second, 10_000).times


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """A limit on the file size makes the kernel refuse writes, as on a full disk."""
    code = (
        "import asyncio, resource, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.history import test_live_history as t\n"
        "async def main():\n"
        "    async with t.running(Path(sys.argv[1])) as history:\n"
        "        record = t.Seconds(history)\n"
        "        await t.until(lambda: not history.status.ok, record)\n"
        "        print(history.status.error, history.status.dropped)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "history.db")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": _paths()}
    )
    assert done.returncode == 0, done.stderr
    assert any(word in done.stdout for word in ("disk I/O error", "full")), done.stdout


def _paths() -> str:
    return os.pathsep.join(path for path in sys.path if path)


async def test_a_damaged_file_is_moved_aside(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"this was a database once " * 1000)
    async with running(file) as history:
        record = Seconds(history)
        await until(lambda: history.status.ok and history.status.bytes, record)
    assert file.with_name("history.db.damaged").read_bytes().startswith(b"this was a database once")
    assert HistoryReader(file).series("web", "score", [], BEGIN, BEGIN + record.second, 10_000).times
    damaged, again = told(history)
    assert "it was moved to history.db.damaged" in damaged
    assert "recording resumed" in again


async def test_a_file_that_is_damaged_while_it_is_written(file: Path) -> None:
    async with running(file) as history:
        for second in range(60):
            history.record_sample(sample(second, pool(second, {f"m{i}": float(i) for i in range(50)})))
        await until(lambda: history.status.bytes)
    size = file.stat().st_size
    with file.open("r+b") as damaged:
        damaged.seek(4096)
        damaged.write(b"\xff" * (size - 4096))
    async with running(file) as history:
        await until(lambda: history.status.ok and history.status.bytes, Seconds(history, 100))
    assert file.with_name("history.db.damaged").exists()


async def test_a_database_of_something_else_is_left_alone(file: Path) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE cats (name)")
    before = file.read_bytes()
    async with running(file) as history:
        await until(lambda: not history.status.ok, Seconds(history))
        assert "not an lbdns history" in history.status.error
    assert file.read_bytes() == before


async def test_a_locked_file_is_waited_for_by_the_thread_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_store, "BUSY", 0.05)
    async with running(file) as history:
        record = Seconds(history)
        await until(lambda: history.status.bytes, record)
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await until(lambda: not history.status.ok, record)
            assert "locked" in history.status.error
        await until(lambda: history.status.ok, record)


async def test_a_thread_that_is_stuck_costs_samples_and_no_memory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = threading.Event()
    run = module._HistoryWriter._run

    def run_later(writer: module._HistoryWriter) -> None:
        ready.wait(LIMIT)
        run(writer)

    monkeypatch.setattr(module._HistoryWriter, "_run", run_later)
    history = LiveHistory(file, HistoryConfig(), EventLog(lambda: BEGIN), commit_every=LIMIT)
    await history.start()
    for second in range(10 * MAX_WAITING):
        history.record_sample(sample(second))
    history._events.record("state", "one more")
    assert history.status.dropped == 9 * MAX_WAITING
    ready.set()
    await history.stop()
    assert [event.text for event in HistoryReader(file).events()] == ["one more"], "samples displace no event"
    assert len(HistoryReader(file).series("web", "score", [], BEGIN, BEGIN + 10_000, 100_000).times) == MAX_WAITING


async def test_a_sample_is_released_long_before_the_next_commit(file: Path) -> None:
    """A sample that waits for a commit keeps an old reading of every member in memory."""
    history = LiveHistory(file, HistoryConfig(), EventLog(lambda: BEGIN), commit_every=60 * LIMIT)
    await history.start()
    reading = Reading(0.5, 1.0, 7)
    before = sys.getrefcount(reading)
    history.record_sample(sample(1, pool(1, {"a": 1.0}, readings=(reading,))))
    await until(lambda: sys.getrefcount(reading) == before)
    assert not file.exists()
    await history.stop()
    assert len(HistoryReader(file).series("web", "score", [], BEGIN, BEGIN + 60, 600).times) == 1


async def test_of_very_many_members_fewer_samples_are_taken(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMBERS", 10)
    async with running(file) as history:
        for second in range(30):
            if history.needs_sample(30, float(second)):
                history.record_sample(sample(second, pool(second, {f"m{i}": float(i) for i in range(30)})))
    found = HistoryReader(file).series("web", "answers", ["m0"], BEGIN, BEGIN + 30, 600)
    assert [time - BEGIN for time in found.times if found.series["m0"][found.times.index(time)] is not None] == [
        *range(3, 30, 3)
    ]
    assert set(found.series["m0"]) - {None} == {10.0}
    assert history.status.dropped == 0


async def test_events_that_can_not_be_written_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 10)
    (tmp_path / "state").write_text("in the way")
    async with running(tmp_path / "state" / "history.db") as history:
        await until(
            lambda: history.status.dropped > 20,
            lambda: history.record_event(LoggedEvent(1, BEGIN, "state", "info", "x")),
        )


async def test_a_mistake_of_ours_does_not_end_the_thread(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(sample(5), pools=(pool(5, {"a": 1.0}, states=("no state",)),))
    async with running(file) as history:
        history.record_sample(broken)
        await until(lambda: history.status.error)
        assert "ValueError" in history.status.error
        await until(lambda: history.status.ok, Seconds(history, 10))


@needs(root=True)
async def test_a_reader_without_write_access() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "history.db"
        async with running(file) as history:
            history.record_sample(sample(0))
        Path(folder).chmod(0o755)
        os.seteuid(65534)
        try:
            assert HistoryReader(file).pools()[0].name == "web"
        finally:
            os.seteuid(0)


@needs(root=True)
async def test_a_folder_that_may_not_be_written() -> None:
    await asyncio.to_thread(lambda: None)  # imports a module that the other user may not read
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        os.seteuid(65534)
        try:
            async with running(Path(folder) / "history.db") as history:
                await until(lambda: not history.status.ok, Seconds(history))
                assert "unable to open" in history.status.error
        finally:
            os.seteuid(0)
        with pytest.raises(LbdnsError, match="there is no history"):
            HistoryReader(Path(folder) / "history.db").pools()

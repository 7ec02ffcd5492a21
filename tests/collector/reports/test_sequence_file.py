"""The sequence file: what it preserves, and what the collector does if the file or the disk fails."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest

from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.farm import Farm
from lbdns.process.apply_configuration import apply
from lbdns.process.duty_cycle import DutyCycle
from lbdns_collector.reports import sequence_file
from lbdns_collector.reports.collector import Collector
from lbdns_collector.reports.reporting_peer import AcceptedReport, HostRecord
from lbdns_collector.reports.sequence_file import FILE_NAME, SLICE, SequenceKeeper, read, write
from lbdns_shared.errors import LbdnsError
from tests.collector.collector_fixtures import KEY, datagram, make_farm, until
from tests.collector.report_tables import accept, make
from tests.collector.reports.test_collector import send

RECORDS = {
    "gandalf": (AcceptedReport(2**64 - 1, 5, 1_800_000_000.123456, 1_800_000_000.2, gone=True), {3: 1_800_000_060.5})
}
ONE = msgpack.packb({"version": 1, "hosts": 1})


def as_read(records: Mapping[str, HostRecord]) -> dict[str, Any]:
    return {name: [list(report), replaced] for name, (report, replaced) in records.items()}


@asynccontextmanager
async def saving(farm: Farm, events: EventLog | None = None) -> AsyncIterator[Collector]:
    collector = Collector(farm, (KEY,), events)
    await collector.start(lambda snapshot: None)
    collector.start_saving()
    try:
        yield collector
    finally:
        await collector.stop()


def warnings(events: EventLog) -> list[str]:
    return [event.text for event in events.newest() if event.level == "warning" and str(FILE_NAME) in event.text]


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / FILE_NAME
    write(path, RECORDS)
    assert read(path) == as_read(RECORDS)
    assert path.stat().st_mode & 0o777 == 0o600


def test_many_hosts_are_written_in_slices(tmp_path: Path) -> None:
    records: dict[str, HostRecord] = {
        f"host{n}": (AcceptedReport(n, 1, 1.5, 1.5, gone=False), {}) for n in range(2 * SLICE + 1)
    }
    for some in (records, {}):
        write(tmp_path / FILE_NAME, some)
        assert read(tmp_path / FILE_NAME) == as_read(some)


def test_a_missing_file_is_no_error(tmp_path: Path) -> None:
    assert read(tmp_path / "nowhere" / FILE_NAME) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 4096, b"{", msgpack.packb([]), msgpack.packb({"version": 1}), msgpack.packb({"hosts": 0}),
        ONE, ONE + msgpack.packb({}), ONE + msgpack.packb(5), ONE + msgpack.packb({"gandalf": 1})[:-1],
        msgpack.packb({"version": 1, "hosts": "1"}), b"\xc1", b"\x91" * 100_000, b"\xdf\xff\xff\xff\xff",
    ],
)  # fmt: skip
def test_a_damaged_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(LbdnsError, match="not a valid sequence file"):
        read(tmp_path / FILE_NAME)


@pytest.mark.parametrize("version", [0, 2, "1", None, ["x" * 1000]])
def test_a_file_of_another_version_is_an_error(tmp_path: Path, version: Any) -> None:
    (tmp_path / FILE_NAME).write_bytes(msgpack.packb({"version": version, "hosts": 1}))
    with pytest.raises(LbdnsError, match=r"the file has version .{1,20}, not 1$"):
        read(tmp_path / FILE_NAME)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(LbdnsError, match="cannot read the file: Is a directory"):
        read(tmp_path / FILE_NAME)


async def test_a_replay_is_rejected_after_a_restart(tmp_path: Path) -> None:
    farm, report = make_farm(tmp_path), datagram(seq=5, at=time.time())
    async with saving(farm) as old:
        send(old.addresses[0], report)
        await until(lambda: old.counts["accepted"] == 1)
    async with saving(farm) as new:
        send(new.addresses[0], report)
        await until(lambda: new.counts["replay"] == 1)
        assert new.counts["accepted"] == 0


async def test_a_report_is_saved_while_the_collector_runs(tmp_path: Path) -> None:
    farm = make_farm(tmp_path)
    path = sequence_file.sequence_path(farm.config)
    async with saving(farm) as collector:
        assert not path.exists()
        for seq in (1, 2):
            send(collector.addresses[0], datagram(seq=seq, at=time.time()))
            await until(lambda seq=seq: path.exists() and read(path)["gandalf"][0][1] == seq)  # type: ignore[misc]


async def test_what_arrived_before_the_stop_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean stop saves at once, even reports that were still waiting in the socket."""
    monkeypatch.setattr(sequence_file, "SAVING", DutyCycle(0.0, shortest=3600.0))
    farm = make_farm(tmp_path)
    async with saving(farm) as collector:
        send(collector.addresses[0], datagram(seq=7, at=time.time()))
    assert read(sequence_file.sequence_path(farm.config))["gandalf"][0][1] == 7


async def test_a_reload_may_move_the_file(tmp_path: Path) -> None:
    farm = make_farm(tmp_path)
    other = tmp_path / "other"
    moved = make_farm(tmp_path, more='[server]\nstate_dir = "other"\n')
    async with saving(farm) as collector:
        send(collector.addresses[0], datagram(seq=7, at=time.time()))
        await until(lambda: collector.counts["accepted"] == 1)
        await apply((collector,), CheckedConfiguration(moved, (KEY,)))
        await until((other / FILE_NAME).exists)
    assert read(other / FILE_NAME)["gandalf"][0][1] == 7


@pytest.mark.parametrize(
    "content",
    [b"{", msgpack.packb({"version": 9, "hosts": 0}), *(ONE + msgpack.packb({k: [1]}) for k in ("frodo", "A B", 5))],
)
async def test_the_collector_starts_with_a_bad_file(tmp_path: Path, content: bytes) -> None:
    farm, events = make_farm(tmp_path), EventLog()
    path = sequence_file.sequence_path(farm.config)
    path.parent.mkdir()
    path.write_bytes(content)
    async with saving(farm, events) as collector:
        assert len(warnings(events)) == 1
        send(collector.addresses[0], datagram(seq=7, at=time.time()))
        await until(lambda: collector.counts["accepted"] == 1)
    assert read(path)["gandalf"][0][1] == 7, "the bad file was replaced"


async def test_a_folder_that_cannot_be_made_is_logged_once(tmp_path: Path) -> None:
    farm, events = make_farm(tmp_path), EventLog()
    folder = sequence_file.sequence_path(farm.config).parent
    folder.write_text("a file where the folder should be")
    async with saving(farm, events) as collector:
        send(collector.addresses[0], datagram(seq=1, at=time.time()))
        await until(lambda: any("can't be written" in text for text in warnings(events)))
    assert sum("can't be written" in text for text in warnings(events)) == 1


async def test_a_disk_that_fills_and_empties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[Path] = []
    full = threading.Event()
    full.set()

    def write_unless_full(path: Path, records: dict[str, Any]) -> None:
        attempts.append(path)
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, records)

    monkeypatch.setattr(sequence_file, "write", write_unless_full)
    monkeypatch.setattr(sequence_file, "SAVING", DutyCycle(0.0, shortest=0.001))
    farm, events = make_farm(tmp_path), EventLog()
    async with saving(farm, events) as collector:
        send(collector.addresses[0], datagram(seq=1, at=time.time()))
        await until(lambda: len(attempts) > 3)
        full.clear()
        await until(lambda: any("sequence numbers are saved again" in event.text for event in events.newest()))
    assert [text.partition(": ")[2] for text in warnings(events)] == [
        "can't be written: No space left on device; after a restart, replays will not be recognised"
    ]
    assert read(sequence_file.sequence_path(farm.config))["gandalf"][0][1] == 1


async def test_a_disk_that_hangs_delays_neither_reports_nor_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, released = threading.Event(), threading.Event()

    def hang(*_: Any) -> None:
        hangs.set()
        released.wait()

    monkeypatch.setattr(sequence_file, "write", hang)
    monkeypatch.setattr(sequence_file, "SAVING", DutyCycle(0.0, shortest=0.001))
    monkeypatch.setattr(sequence_file, "STOP", 0.01)
    async with saving(make_farm(tmp_path)) as collector:
        send(collector.addresses[0], datagram(seq=1, at=time.time()))
        await until(hangs.is_set)
        send(collector.addresses[0], datagram(seq=2, at=time.time()))
        await until(lambda: collector.counts["accepted"] == 2)
    released.set()


async def test_nothing_is_written_while_no_report_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    monkeypatch.setattr(sequence_file, "write", lambda path, records: written.append(path))
    table = make(KEY)
    keeper = SequenceKeeper(tmp_path / FILE_NAME, table, EventLog())
    keeper.start()
    await keeper.stop()
    assert written == []
    accept(table, datagram(seq=1))
    for _ in range(2):
        keeper.start()
        await keeper.stop()
    assert len(written) == 1

"""Handover of a collector to another process: readings, sequence numbers, counts, and datagrams waiting in sockets."""

from __future__ import annotations

import asyncio
import copy
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from lbdns.model.farm import Farm
from lbdns.model.snapshot import FailedCheck, Reading, Snapshot, read_reading, write_reading
from lbdns.scores.thesis import THESIS
from lbdns_collector.reports.collector import Collector
from lbdns_collector.reports.report_table import ReportTable
from tests.collector.collector_fixtures import HOSTS, KEY, WALL, datagram, make_farm, until
from tests.collector.reports.test_collector import send

NOW = 5000.0  # monotonic seconds of the old process
LATER = 100.0  # monotonic seconds of the new process, which has another clock


def accepted(table: ReportTable, data: bytes, now: float, wall: float = WALL) -> str:
    return table.accept(data, "192.0.2.1", now, wall)


def old_table() -> ReportTable:
    table = ReportTable(HOSTS, (KEY,), THESIS)
    assert accepted(table, datagram("gandalf", seq=5), NOW) == "accepted"
    assert accepted(table, datagram("frodo", boot=1, seq=9), NOW - 2) == "accepted"
    assert accepted(table, datagram("frodo", boot=2, seq=1, at=WALL + 1), NOW - 1) == "accepted"
    assert accepted(table, b"", NOW) == "malformed"
    return table


def passed_on(table: ReportTable) -> Any:
    """Return a table's state as received by another process."""
    return msgpack.unpackb(msgpack.packb(table.state(NOW)), strict_map_key=False)


def new_table(state: Any) -> ReportTable:
    table = ReportTable(HOSTS, (KEY,), THESIS)
    table.restore(state, LATER)
    return table


def test_readings_keep_their_age() -> None:
    old = old_table()
    new = new_table(passed_on(old))
    readings = new.snapshot().readings
    assert readings.keys() == old.snapshot().readings.keys()
    assert readings["gandalf.hobbit"].received == LATER
    assert readings["frodo.hobbit"].received == LATER - 1
    for name, reading in old.snapshot().readings.items():
        assert readings[name].metrics == reading.metrics
        assert readings[name].score == reading.score


def test_versions_and_counts_go_on() -> None:
    old = old_table()
    old.snapshot()
    new = new_table(passed_on(old))
    assert new.snapshot().version > old.snapshot().version
    assert new.counts == old.counts


def test_replays_stay_rejected() -> None:
    new = new_table(passed_on(old_table()))
    assert accepted(new, datagram("gandalf", seq=5), LATER) == "replay"
    assert accepted(new, datagram("gandalf", seq=6), LATER) == "accepted"
    assert accepted(new, datagram("frodo", boot=1, seq=10, at=WALL + 2), LATER) == "replay", "a boot that was replaced"
    assert accepted(new, datagram("frodo", boot=2, seq=2, at=WALL + 2), LATER) == "accepted"


def test_unknown_hosts_are_left_out() -> None:
    state = passed_on(old_table())
    few = {name: host for name, host in HOSTS.items() if name.startswith("frodo")}
    new = ReportTable(few, (KEY,), THESIS)
    new.restore(state, LATER)
    assert set(new.snapshot().readings) == {"frodo.hobbit"}
    assert accepted(new, datagram("gandalf", seq=6), LATER) == "unknown_host"


@pytest.mark.parametrize(
    "change",
    [
        {"readings": []},
        {"readings": {"gandalf.hobbit": [0.0, -1.0, 5, {}, "", False]}},
        {"readings": {"gandalf.hobbit": [float("nan"), 1.0, 5, {}, "", False]}},
        {"readings": {"gandalf.hobbit": [0.0, 1.0, 5, {"cpu_idle": float("inf")}, "", False]}},
        {"readings": {"gandalf.hobbit": [0.0]}},
        {"peers": {"gandalf": []}},
        {"peers": {"gandalf": ["x", 1, None, [], 0.0, 1.0, None]}},
        {"counts": None},
        {"version": "new"},
    ],
)
def test_an_invalid_state_changes_nothing(change: dict[str, Any]) -> None:
    table = old_table()
    before = copy.deepcopy(table.state(NOW))
    with pytest.raises(ValueError, match="not a valid collector state"):
        table.restore({**passed_on(old_table()), **change}, LATER)
    assert table.state(NOW) == before


def test_a_reading_as_plain_data() -> None:
    reading = old_table().snapshot().readings["frodo.hobbit"]
    assert read_reading(write_reading(reading, NOW), NOW) == reading
    assert len(write_reading(reading, NOW)) == 6  # as older versions expect it
    failed = replace(reading, failed_checks=(FailedCheck("web", "tcp:80: connection refused"), FailedCheck("b", "x")))
    assert read_reading(write_reading(failed, NOW), NOW) == failed
    checked = Reading(NOW - 1.0, 5.0, None)
    assert read_reading(write_reading(checked, NOW), NOW) == checked


async def test_reports_wait_while_paused(tmp_path: Path) -> None:
    farm: Farm = make_farm(tmp_path)
    old, new = Collector(farm, (KEY,)), Collector(farm, (KEY,))
    delivered: list[Snapshot] = []
    await old.start(lambda snapshot: None)
    here = old.addresses[0]
    send(here, datagram("gandalf", seq=1, at=time.time()))
    await until(lambda: old.counts["accepted"] == 1)
    new.open(dict(old.duplicates()))
    old.pause()
    send(here, datagram("gandalf", seq=2, at=time.time()), datagram("frodo", seq=1, at=time.time()))
    now = time.monotonic()
    new.table.restore(old.table.state(now), now)
    await old.stop()
    assert old.counts["accepted"] == 1, "what waited is left to the other"
    await new.start(delivered.append)
    assert new.addresses == (here,)
    await until(lambda: new.counts["accepted"] == 3)
    assert delivered[0].readings.keys() >= {"gandalf.hobbit"}, "what was known is told at once"
    await new.stop()


async def test_a_resumed_collector_reads_waiting_reports(tmp_path: Path) -> None:
    collector = Collector(make_farm(tmp_path), (KEY,))
    await collector.start(lambda snapshot: None)
    collector.pause()
    send(collector.addresses[0], datagram("gandalf", seq=1, at=time.time()))
    await asyncio.sleep(0.05)  # there is no event to await
    assert collector.counts["accepted"] == 0
    collector.resume()
    await until(lambda: collector.counts["accepted"] == 1)
    await collector.stop()

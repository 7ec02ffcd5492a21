"""Tests of reading the selected disks: unknown devices, disks that disappear and return, and unreadable counters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lbdns_agent.recorder.disk_source import DiskSource, device_name
from lbdns_agent.recorder.disk_table import LBDNS
from lbdns_shared.errors import ConfigError, LbdnsError
from tests.agent.recorder.recorders import diskstats


def reader(contents: Sequence[bytes | Exception]) -> DiskSource:
    """Return a source of sda and sdb that reads these ``contents`` one after the other."""
    return DiskSource(source_of(contents), ("sda", "sdb"), LBDNS)


def source_of(contents: Sequence[bytes | Exception]) -> Callable[[], bytes]:
    """Return a function that returns or raises these ``contents`` one after the other."""
    left = iter(contents)

    def read() -> bytes:
        content = next(left)
        if isinstance(content, Exception):
            raise content
        return content

    return read


def take(source: DiskSource) -> list[tuple[str, str]]:
    """Return the device and the number of reads of each row."""
    _, rows = source.take(lambda: 0.0)
    fields = [row.split(",") for row in rows]
    return [(field[3], field[4]) for field in fields]


def test_a_disk_that_disappears_and_returns(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rounds = ["vanish-1", "vanish-2", "vanish-2", "vanish-3"]
    source = reader([diskstats(name) for name in rounds])
    assert [take(source) for _ in rounds] == [
        [("sda", "100"), ("sdb", "70")],
        [("sda", "110")],
        [("sda", "110")],
        [("sda", "120"), ("sdb", "4")],
    ]
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "sdb: the device has disappeared; it is recorded again when it returns"),
        ("INFO", "sdb: the device has returned"),
    ]


def test_all_devices_are_those_that_exist_now(caplog: pytest.LogCaptureFixture) -> None:
    rounds = ["vanish-2", "vanish-1", "vanish-2"]
    source = DiskSource(source_of([diskstats(name) for name in rounds]), (), LBDNS)
    assert [[device for device, _ in take(source)] for _ in rounds] == [["sda"], ["sda", "sdb"], ["sda"]]
    assert caplog.records == []


def test_counters_that_can_not_be_read_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bad: list[bytes | Exception] = [OSError(5, "Input/output error"), b"8 0 sda x 0 0 0 0 0 0 0 0 0 0\n"]
    source = reader([*bad, diskstats("vanish-1")])
    assert [take(source) for _ in range(3)] == [[], [], [("sda", "100"), ("sdb", "70")]]
    assert [record.message for record in caplog.records] == [
        "/proc/diskstats: Input/output error; no disk is recorded until this file can be read again",
        "/proc/diskstats: can be read again",
    ]


def test_unknown_devices() -> None:
    with pytest.raises(ConfigError) as caught:
        DiskSource(source_of([diskstats("study-2014-1")]), ("vdb", "vda", "floppy"), LBDNS).check()
    assert caught.value.findings == (
        "--devices: unknown device 'vdb'; /proc/diskstats lists: loop0, vda, vda1. Perhaps you meant 'vda'?",
        "--devices: unknown device 'floppy'; /proc/diskstats lists: loop0, vda, vda1",
    )


def test_a_system_without_diskstats() -> None:
    with pytest.raises(LbdnsError, match="No such file or directory; disks can be recorded on Linux only"):
        reader([FileNotFoundError(2, "No such file or directory")]).check()


def test_paths_below_dev(tmp_path: Path) -> None:
    assert [device_name(text) for text in ("sda", "/dev/null", "/dev/../dev/null", "/tmp/sda")] == [
        "sda", "null", "null", "/tmp/sda",
    ]  # fmt: skip

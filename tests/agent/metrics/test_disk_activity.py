from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import disk_activity
from lbdns_agent.metrics.disk_activity import DiskCounters
from tests.agent.fixtures import host_with_kernel, proc_file


@pytest.mark.parametrize(
    ("kernel", "disks"),
    [
        ("2.6.32", {b"sda": DiskCounters(120934 + 220934, 901220 + 1209344, 701220)}),
        (
            "3.10",
            {
                b"sda": DiskCounters(50122 + 120344, 401220 + 612033, 301220),
                b"sdb": DiskCounters(901220 + 20934, 3120934 + 90122, 1209344),
            },
        ),
        ("4.19", {b"nvme0n1": DiskCounters(301220 + 412033 + 1209, 61220 + 120934 + 301, 90122)}),
        (
            "5.10",
            {b"vda": DiskCounters(56120 + 41220 + 512, 15200 + 20934 + 200, 30122), b"vdb": DiskCounters(91, 12, 20)},
        ),
        (
            "6.1",
            {
                b"mmcblk0": DiskCounters(4120 + 8120, 9120 + 41220, 12093),
                b"sda": DiskCounters(912033 + 301220 + 90, 512033 + 401220 + 400, 612033),
            },
        ),
        ("6.18", {b"vda": DiskCounters(253342 + 37788 + 46593, 196536 + 28352 + 5532, 40220)}),
    ],
)
def test_whole_disks_of(kernel: str, disks: dict[bytes, DiskCounters]) -> None:
    assert disk_activity.parse(proc_file(kernel, "diskstats")) == disks
    assert disk_activity.read(host_with_kernel(kernel)) == disks


@pytest.mark.parametrize(
    ("names", "whole"),
    [
        (["sda", "sda1", "sda15", "sdaa", "sdaa1"], ["sda", "sdaa"]),
        (["xvda1"], ["xvda1"]),  # Xen: a device of its own
        (["nbd1", "nbd10", "nbd1p1"], ["nbd1", "nbd10"]),
        (["nvme0n1", "nvme0n1p1", "nvme1n1", "nvme10n1"], ["nvme0n1", "nvme1n1", "nvme10n1"]),
        (["mmcblk0", "mmcblk0p2", "mmcblk0boot0"], ["mmcblk0", "mmcblk0boot0"]),
        (["cciss/c0d0", "cciss/c0d0p1"], ["cciss/c0d0"]),
        (["ram0", "loop3", "zram0", "sr0", "fd0", "md127", "dm-12"], []),
    ],
)
def test_partitions_and_what_is_no_disk_are_left_out(names: list[str], whole: list[str]) -> None:
    text = "".join(f"   8  0 {name} 1 0 0 0 1 0 0 0 0 0 0\n" for name in names)
    assert sorted(disk_activity.parse(text.encode())) == sorted(name.encode() for name in whole)


IDLE = DiskCounters(100, 50, 1000)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, {b"sda": IDLE}, {}),
        ({b"sda": IDLE}, {b"sda": IDLE}, {"disk_busy": 0.0, "disk_await": 0.0}),
        ({b"sda": IDLE}, {b"sda": DiskCounters(110, 90, 1500)}, {"disk_busy": 25.0, "disk_await": 4.0}),
        (  # the busiest of two, whatever the other's requests take
            {b"sda": IDLE, b"sdb": IDLE},
            {b"sda": DiskCounters(101, 550, 1100), b"sdb": DiskCounters(120, 60, 1900)},
            {"disk_busy": 45.0, "disk_await": 0.5},
        ),
        ({b"sda": IDLE}, {b"sda": DiskCounters(110, 90, 4000)}, {"disk_busy": 100.0, "disk_await": 4.0}),
        (
            {b"sda": IDLE},
            {b"sda": DiskCounters(5, 0, 10)},
            {"disk_busy": 0.0, "disk_await": 0.0},
        ),  # the counters ran over
        ({b"sda": IDLE}, {b"sdb": IDLE}, {}),  # exchanged
    ],
)
def test_values(
    before: dict[bytes, DiskCounters] | None, now: dict[bytes, DiskCounters], expected: dict[str, float]
) -> None:
    assert disk_activity.values(before, now, 2.0) == pytest.approx(expected)


def test_no_disk_at_all_is_said() -> None:
    assert all("no disk" in str(reason) for reason in disk_activity.values(None, {}, 0.0).values())


@given(st.binary() | st.text("sdavp 0123456789\n").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(disk_activity.parse(text), dict)

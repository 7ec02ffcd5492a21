from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.recorder import diskstats
from lbdns_agent.recorder.diskstats import COUNTERS, DiskCounterLine, counter_names
from tests.agent.fixtures import KERNELS, proc_file


@pytest.mark.parametrize(
    ("kernel", "device", "expected"),
    [
        ("2.6.32", "sda", (8, 0, 11)),
        ("3.10", "md0", (9, 0, 11)),
        ("4.19", "nvme0n1p2", (259, 2, 15)),
        ("5.10", "vdb", (254, 16, 17)),
        ("6.18", "loop0", (7, 0, 17)),
    ],
)
def test_devices_and_counters_of(kernel: str, device: str, expected: tuple[int, int, int]) -> None:
    line = diskstats.parse(proc_file(kernel, "diskstats"))[device]
    assert (line.major, line.minor, len(line.counters)) == expected


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_line_is_found_unchanged(kernel: str) -> None:
    text = proc_file(kernel, "diskstats")
    lines = diskstats.parse(text).values()
    again = [f"{line.major} {line.minor} {line.name} {' '.join(map(str, line.counters))}" for line in lines]
    assert again == [" ".join(line.split()) for line in text.decode().splitlines()]


def test_short_lines_are_ignored() -> None:
    text = b"   8       1 sda1 512 4120 22 190\n   8 0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11\n\n"
    assert diskstats.parse(text) == {"cciss/c0d0": DiskCounterLine(8, 0, "cciss/c0d0", tuple(range(1, 12)))}


@pytest.mark.parametrize("count", [11, 15, 17])
def test_names_of_known_counters(count: int) -> None:
    assert counter_names(count) == list(COUNTERS[:count])


def test_counters_of_later_kernels_are_named_after_their_position() -> None:
    assert counter_names(19)[16:] == ["flush_ms", "field_21", "field_22"]


@given(st.binary() | st.text("sdavp 0123456789-\n").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(diskstats.parse(text), dict)

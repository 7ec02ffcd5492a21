"""Tests of increases between rows: counters that wrap around, restarts, pauses, and parts that are merged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.recorder import diskstats as parser
from lbdns_agent.recorder.counter_increases import Increases, counter_increases, increases, merged
from lbdns_agent.recorder.diskstats import CLASSIC, COUNTERS
from lbdns_agent.recorder.recorded_file import CounterRow
from tests.agent.recorder.recorders import diskstats


def rows(device: str, *names: str) -> list[CounterRow]:
    """Return the counters of a device in recorded /proc/diskstats files, one second apart."""
    return [CounterRow(float(at), parser.parse(diskstats(name))[device].counters) for at, name in enumerate(names)]


def test_counters_of_a_32_bit_kernel_wrap_around_and_a_restart_is_a_gap() -> None:
    wrapped, restart = increases(rows("sda", "wrap-32-1", "wrap-32-2", "wrap-32-3"))
    assert restart is None
    assert wrapped is not None
    assert dict(zip(COUNTERS, wrapped.counters)) == {
        "reads": 1, "reads_merged": 0, "sectors_read": 8, "read_ms": 3,
        "writes": 40, "writes_merged": 7, "sectors_written": 800, "write_ms": 500,
        "in_progress": 0, "busy_ms": 96, "weighted_ms": 68029,
    }  # fmt: skip


def test_counters_of_a_64_bit_kernel_wrap_around() -> None:
    (wrapped,) = increases(rows("nvme0n1", "wrap-64-1", "wrap-64-2"))
    assert wrapped is not None
    names = ("reads", "sectors_read", "read_ms", "busy_ms", "weighted_ms", "discards", "flushes", "flush_ms")
    assert [wrapped.of(name) for name in names] == [100, 1000, 60, 60, 61, 0, 0, 0]


def test_a_device_that_disappeared_returns_with_new_counters() -> None:
    found = increases(rows("sdb", "vanish-1", "vanish-3"))
    assert found == [None]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (0, 0, 0),
        (5, 7, 2),
        (2**32 - 1, 0, 1),
        (2**32 - 1, 2**31 - 2, 2**31 - 1),
        (2**32 - 1, 2**31 - 1, None),  # half of the range at once
        (2**31 - 1, 0, None),  # far from the limit
        (2**32, 5, None),  # of 64 bits, and far from the limit
        (2**64 - 3, 1, 4),
        (2**64, 1, None),  # no counter is this large
    ],
)
def test_one_counter(old: int, new: int, expected: int | None) -> None:
    found = counter_increases([old] * 2 + [0] * 9, [new] * 2 + [0] * 9, 1.0)
    assert found == (None if expected is None else (expected, expected, *[0] * 9))


@pytest.mark.parametrize(("seconds", "known"), [(1.0, False), (100.0, True)])
def test_a_busy_time_that_increases_faster_than_time_itself_is_a_restart(seconds: float, known: bool) -> None:
    old, new = [0] * CLASSIC, [0] * CLASSIC
    old[COUNTERS.index("busy_ms")] = 2**32 - 50_000
    assert (counter_increases(old, new, seconds) is not None) is known


@pytest.mark.parametrize("in_progress", [0, 8, 9, 10])
def test_requests_in_progress_are_no_total(in_progress: int) -> None:
    old = [9] * CLASSIC
    new = [9] * CLASSIC
    new[COUNTERS.index("in_progress")] = in_progress
    assert counter_increases(old, new, 1.0) == (0,) * CLASSIC


def test_another_kernel_is_a_gap() -> None:
    assert counter_increases([1] * 11, [2] * 15, 1.0) is None


def at(*times: float) -> list[CounterRow]:
    return [CounterRow(time, (int(10 * time),) * CLASSIC) for time in times]


@pytest.mark.parametrize(
    ("times", "gaps"),
    [
        ((), []),
        ((1.0,), []),
        ((1.0, 1000.0), [False]),  # two rows have nothing to compare with
        ((1.0, 2.0, 3.0, 13.0, 14.0), [False] * 4),  # one slow row
        ((1.0, 2.0, 3.0, 14.0, 15.0), [False, False, True, False]),  # nothing was recorded
        ((1.0, 2.0, 3.0, 63.0, 123.0, 183.0), [False] * 5),  # a longer interval from here on
        ((1.0, 2.0, 2.0, 1.5, 3.0), [False, True, True, False]),  # twice the same time; a clock that was set back
    ],
)
def test_gaps(times: Sequence[float], gaps: Sequence[bool]) -> None:
    assert [part is None for part in increases(at(*times))] == gaps


def test_merged_parts_keep_the_totals() -> None:
    parts = increases([*at(1.0, 2.0, 3.0, 4.0), *at(0.5, 1.5)])
    found = merged(parts, 2.0)
    assert [part and (part.start, part.end, part.of("reads")) for part in found] == [
        (1.0, 3.0, 20), (3.0, 4.0, 10), None, (0.5, 1.5, 10),
    ]  # fmt: skip
    assert merged(parts, 0.0) == parts


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**40)), max_size=60), st.integers(1, 10))
def test_merging_loses_nothing(amounts: list[int | None], shortest: int) -> None:
    parts = [
        None if amount is None else Increases(float(time), time + 1.0, (amount,) * CLASSIC)
        for time, amount in enumerate(amounts)
    ]
    found = merged(parts, float(shortest))
    assert sum(part.of("reads") for part in found if part) == sum(amount or 0 for amount in amounts)
    assert sum(part.seconds for part in found if part) == sum(amount is not None for amount in amounts)
    assert found.count(None) == amounts.count(None)

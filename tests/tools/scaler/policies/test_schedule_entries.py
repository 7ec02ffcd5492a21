"""Tests of schedule entries: their notation, days, midnight, and changes between summer and winter time."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.policies.schedule_entries import DAYS, parse_entry

BERLIN = ZoneInfo("Europe/Berlin")
UTC = ZoneInfo("UTC")


@pytest.mark.parametrize(
    ("text", "days", "begin", "end", "servers"),
    [
        ("mon-fri 08:00-18:00 12", {0, 1, 2, 3, 4}, 480, 1080, 12),
        ("Sat,Sun 00:00-24:00 2", {5, 6}, 0, 1440, 2),
        ("fri-mon 22:00-06:00 3", {4, 5, 6, 0}, 1320, 360, 3),
        ("daily 12:30-12:30 1", set(range(7)), 750, 750, 1),
        ("mon,wed-thu 09:05-10:00 10000", {0, 2, 3}, 545, 600, 10_000),
    ],
)
def test_notation(text: str, days: set[int], begin: int, end: int, servers: int) -> None:
    entry = parse_entry(text)
    assert (set(entry.days), entry.begin, entry.end, entry.servers) == (days, begin, end, servers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have three parts; write DAYS FROM-TO SERVERS"),
        ("mon 08:00-18:00", "must have three parts"),
        ("mon 8-18 3", "'8-18' is not a period from 00:00 to 24:00"),
        ("mon 08:00-25:00 3", "'08:00-25:00' is not a period"),
        ("mon 08:00-24:30 3", "must begin before 24:00 and end at 24:00 at the latest"),
        ("mon 24:00-01:00 3", "must begin before 24:00"),
        ("mo 08:00-18:00 3", "unknown day 'mo'. Perhaps you meant 'mon'?"),
        ("mon-xyz 08:00-18:00 3", "unknown day 'xyz'"),
        ("mon, 08:00-18:00 3", "unknown day ''"),
        ("mon 08:00-18:00 0", "the number of servers must be from 1 to 10000, not '0'"),
        ("mon 08:00-18:00 x", "not 'x'"),
        ("mon 08:00-18:00 \u0663", "not '\u0663'"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_entry(text)


@given(st.text(max_size=30))
def test_any_other_text_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"three parts|not a period"):
        parse_entry(text)


@pytest.mark.parametrize(
    ("text", "time", "expected"),
    [
        ("mon 08:00-18:00 1", "2024-01-01T08:00", True),
        ("mon 08:00-18:00 1", "2024-01-01T07:59", False),
        ("mon 08:00-18:00 1", "2024-01-01T18:00", False),
        ("mon 08:00-18:00 1", "2024-01-02T09:00", False),
        ("mon 22:00-06:00 1", "2024-01-02T05:59", True),
        ("mon 22:00-06:00 1", "2024-01-01T05:59", False),
        ("mon 22:00-06:00 1", "2024-01-02T06:00", False),
        ("sun 23:00-01:00 1", "2024-01-01T00:30", True),
        ("mon 00:00-24:00 1", "2024-01-01T23:59", True),
        ("mon 00:00-24:00 1", "2024-01-02T00:00", False),
        ("mon 12:00-12:00 1", "2024-01-02T11:59", True),
    ],
)
def test_days_and_midnight(text: str, time: str, expected: bool) -> None:
    for zone in (UTC, BERLIN):
        assert parse_entry(text).covers(datetime.fromisoformat(time).replace(tzinfo=zone).timestamp(), zone) == expected


def minutes_in_force(text: str, first: str, last: str) -> int:
    """Return the number of minutes between two UTC times in which an entry is in force in Berlin."""
    entry, times = parse_entry(text), [datetime.fromisoformat(f"{time}+00:00").timestamp() for time in (first, last)]
    return sum(entry.covers(times[0] + 60 * at, BERLIN) for at in range(int(times[1] - times[0]) // 60))


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("sun 01:00-04:00 1", 120),  # 2024-03-31 has no hour from 02:00 to 03:00
        ("sun 02:30-04:00 1", 60),  # begins when the clock is set forward
        ("sun 01:00-02:30 1", 60),  # ends when the clock is set forward
        ("sun 02:10-02:50 1", 0),
        ("sun 08:00-18:00 1", 600),
        ("sat 23:00-03:00 1", 180),
    ],
)
def test_the_clock_is_set_forward(text: str, minutes: int) -> None:
    assert minutes_in_force(text, "2024-03-30T00:00", "2024-04-01T00:00") == minutes


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("sun 01:00-04:00 1", 240),  # 2024-10-27 has the hour from 02:00 to 03:00 twice
        ("sun 02:30-04:00 1", 150),  # from the first 02:30 on
        ("sun 01:00-02:30 1", 150),  # until the second 02:30
        ("sun 08:00-18:00 1", 600),
    ],
)
def test_the_clock_is_set_back(text: str, minutes: int) -> None:
    assert minutes_in_force(text, "2024-10-26T00:00", "2024-10-28T00:00") == minutes


@given(st.sampled_from(DAYS), st.integers(0, 23), st.integers(1, 23), st.integers(0, 366 * 24))
def test_an_entry_is_in_force_as_long_as_it_lasts(day: str, begin: int, length: int, hour: int) -> None:
    entry = parse_entry(f"{day} {begin:02}:00-{(begin + length) % 24:02}:00 1")
    start = 1_704_067_200 + hour * 3600
    assert sum(entry.covers(start + 3600.0 * at, UTC) for at in range(168)) == length

"""Tests of parsing and formatting durations and points in time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.text.times import LONGEST, format_duration, format_time, parse_duration, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15min", 900), ("15m", 900), ("2h", 7200), ("1d12h", 129_600), ("1d 12h", 129_600), (" 1.5H ", 5400),
     ("2w", 1_209_600), ("0.5s", 0.5)],
)  # fmt: skip
def test_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", " ", "2", "h", "2x", "-2h", "2h3", "0s", "99999d", "1e3s", "2 hours", "²h"])
def test_no_span(text: str) -> None:
    with pytest.raises(ValueError, match="2h, 1d or 1d12h"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.4, "0s"), (59.6, "1min"), (90, "1min30s"), (7200, "2h"), (7261, "2h1min"), (129_600, "1d12h"),
     (86_405, "1d5s"), (-3, "0s")],
)  # fmt: skip
def test_written(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(1, int(LONGEST)))
def test_what_is_written_is_read_as_the_same_but_for_what_is_left_out(seconds: int) -> None:
    assert 0 <= seconds - parse_duration(format_duration(seconds)) < max(60, seconds / 24)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", 1000.0),
        ("0", 0.0),
        ("1800000000.5", 1800000000.5),
        ("-2min", 880.0),
        ("-1h", -2600.0),
        ("1970-01-01T01:00", 3600.0),
        ("1970-01-01 01:00:30Z", 3630.0),
        ("1970-01-01T01:00+01:00", 0.0),
        ("1970-01-02", 86_400.0),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text, 1000.0) == seconds


@pytest.mark.parametrize("text", ["", "-", "-5", "-2x", "inf", "nan", "yesterday", "2026-13-01", "-1", "12:00"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid time; write"):
        parse_time(text, 1000.0)


def test_times_are_written_as_logs_have_them() -> None:
    assert format_time(1_800_000_000.9) == "2027-01-15T08:00:00Z"

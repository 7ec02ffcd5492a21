"""Moments as people write them."""

from __future__ import annotations

import pytest

from lbdns.text.moments import format_time, parse_time


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

"""Sweeps as people write them."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.load.sweep_parsers import MAX_POINTS, parse_counts, parse_ramp, parse_rates


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("400", (400,)),
        ("20,40", (20, 40)),
        ("20..100/10", tuple(range(20, 101, 10))),
        ("1..1401/100", tuple(range(1, 1402, 100))),
        ("1..1400/100", tuple(range(1, 1400, 100))),
        (" 5 , 20..40/10,20 ", (5, 20, 30, 40)),
        ("40,20", (40, 20)),
        ("7..7/3", (7,)),
    ],
)
def test_counts(text: str, points: tuple[int, ...]) -> None:
    assert parse_counts(text) == points
    assert parse_rates(text) == points


def test_rates() -> None:
    assert parse_rates("400..2400/400") == (400, 800, 1200, 1600, 2000, 2400)
    assert parse_rates("0.1..1/0.1") == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert all(type(rate) is float for rate in parse_rates("1,2"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a number is missing"),
        ("20,", "a number is missing"),
        ("abc", "'abc' is neither a number nor a sweep; write 20, 20,40 or 20..100/10"),
        ("20-100", "neither"),
        ("20..100", "'20..100' has no step"),
        ("20..100/0", "must be more than 0"),
        ("100..20/10", "must not be below the first"),
        ("-5", "neither"),
        ("0", "0 is not a whole number from 1"),
        ("1.5", "1.5 is not a whole number"),
        ("1..2/0.5", "1.5 is not a whole number"),
        ("1000000", "not a whole number from 1 to 100000"),
        ("1..100000/1", f"more than {MAX_POINTS} points"),
        ("1e3", "neither"),
        ("٣", "neither"),
    ],
)
def test_what_are_no_counts(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_counts(text)


@pytest.mark.parametrize("text", ["0", "0..5/1", "2000000"])
def test_what_are_no_rates(text: str) -> None:
    with pytest.raises(ValueError, match="not a number above 0 and up to 1e"):
        parse_rates(text)


@given(st.integers(1, 5000), st.integers(0, 900), st.integers(1, 50))
def test_a_sweep_goes_from_its_first_in_even_steps_to_its_last(first: int, steps: int, step: int) -> None:
    last = first + steps * step
    points = parse_counts(f"{first}..{last}/{step}")
    assert (points[0], points[-1], len(points)) == (first, last, steps + 1)
    assert all(after - before == step for before, after in pairwise(points))
    assert parse_counts(f"{first}..{last + step - 1}/{step}") == points


@given(st.text("0123456789.,/ -x", max_size=20))
def test_any_text_is_points_or_a_value_error(text: str) -> None:
    for parse in (parse_counts, parse_rates):
        try:
            points = parse(text)
        except ValueError:
            continue
        assert 1 <= len(points) <= MAX_POINTS
        assert len(set(points)) == len(points)
        assert min(points) > 0


def test_ramps() -> None:
    assert parse_ramp("10..200") == (10, 200)
    assert parse_ramp("0..200..0.5") == (0, 200, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10", "not a valid ramp"),
        ("10..", "not a valid ramp"),
        ("10..200/5", "not a valid ramp"),
        ("0..0", "the highest rate"),
        ("a..b", "not a valid ramp"),
    ],
)
def test_what_are_no_ramps(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_ramp(text)

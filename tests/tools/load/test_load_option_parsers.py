"""Tests of parsing option values."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.endpoint import Endpoint
from lbdns_tools.load.load_option_parsers import (
    MAX_POINTS,
    parse_counts,
    parse_latency,
    parse_processes,
    parse_ramp,
    parse_rates,
    parse_resolver,
    parse_source,
    parse_span,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_resolver, "127.0.0.1:5300", Endpoint("127.0.0.1", 5300)),
        (parse_resolver, "127.0.0.1", Endpoint("127.0.0.1", 53)),
        (parse_resolver, "[::1]:5300", Endpoint("::1", 5300)),
        (parse_latency, "p99:200ms", (99, 0.2)),
        (parse_latency, "p50:1.5s", (50, 1.5)),
        (parse_span, "100..5000", (100.0, 5000.0)),
        (parse_source, "127.0.0.2", "127.0.0.2"),
        (parse_source, "::0001", "::1"),
        (parse_processes, "auto", 0),
        (parse_processes, "3", 3),
    ],
)
def test_good(parse: Callable[[str], Any], text: str, value: Any) -> None:
    assert parse(text) == pytest.approx(value) if isinstance(value, float | tuple) else parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_resolver, "ns.hobbit:53", "the resolver must be an IP address, for example 127.0.0.1:53"),
        (parse_resolver, "127.0.0.1:0", "must not be 0"),
        (parse_resolver, "127.0.0.1:x", "must be a number from 0 to 65535"),
        (parse_latency, "p98:200ms", "'p98' is not one of"),
        (parse_latency, "200ms", "is not one of"),
        (parse_latency, "p99:200", "not a valid duration"),
        (parse_latency, "p99:", "write a duration"),
        (parse_latency, "p99:xms", "not a valid duration"),
        (parse_span, "5000..100", "not a valid range; write LOW..HIGH"),
        (parse_span, "0..100", "not a valid range"),
        (parse_span, "1..2..3", "not a valid range"),
        (parse_span, "100", "not a valid ramp"),
        (parse_source, "localhost", "'localhost' is not a valid address"),
        (parse_source, "127.0.0.0/8", "is not a valid address"),
        (parse_processes, "0", "neither 'auto' nor a whole number from 1 to 1024"),
        (parse_processes, "many", "neither 'auto'"),
    ],
)
def test_bad(parse: Callable[[str], Any], text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(text)


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
        ("abc", "'abc' is neither a number nor a sweep of numbers; write a number (20), a list (20,40) or"),
        ("20-100", "neither"),
        ("20..100", "'20..100' has no step"),
        ("20..100/0", "must be greater than 0"),
        ("100..20/10", "must not be less than the first"),
        ("-5", "neither"),
        ("0", "0 is not a whole number from 1"),
        ("1.5", "1.5 is not a whole number"),
        ("1..2/0.5", "1.5 is not a whole number"),
        ("1000000", "not a whole number from 1 to 100000"),
        ("1..100000/1", f"more than {MAX_POINTS} values"),
        ("1e3", "neither"),
        ("٣", "neither"),
    ],
)
def test_what_are_no_counts(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_counts(text)


@pytest.mark.parametrize("text", ["0", "0..5/1", "2000000"])
def test_what_are_no_rates(text: str) -> None:
    with pytest.raises(ValueError, match="must be above 0 and at most 1e"):
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

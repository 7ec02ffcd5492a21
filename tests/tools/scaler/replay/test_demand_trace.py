"""Tests of traces of demand: parts with a constant rate, totals and shifts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.replay.demand_trace import DemandTrace

TRACE = DemandTrace((10.0, 20.0, 50.0), (1.0, 2.0, 4.0), 60.0)


@pytest.mark.parametrize(
    ("begin", "end", "pieces"),
    [
        (10.0, 60.0, [(1.0, 10.0), (2.0, 30.0), (4.0, 10.0)]),
        (15.0, 25.0, [(1.0, 5.0), (2.0, 5.0)]),
        (20.0, 21.0, [(2.0, 1.0)]),
        (55.0, 60.0, [(4.0, 5.0)]),
        (20.0, 20.0, []),
    ],
)
def test_pieces(begin: float, end: float, pieces: list[tuple[float, float]]) -> None:
    assert list(TRACE.pieces(begin, end)) == pieces


def test_totals_and_shifts() -> None:
    assert TRACE.requests == 110
    later = TRACE.shifted(100.0)
    assert (later.begin, later.end, later.requests) == (110, 160, 110)


@given(st.lists(st.tuples(st.floats(0.5, 100), st.floats(0, 1000)), min_size=1, max_size=20), st.floats(0.5, 50))
def test_parts_of_the_trace_add_up(rows: list[tuple[float, float]], period: float) -> None:
    times, now = [], 0.0
    for length, _ in rows:
        times.append(now)
        now += length
    trace = DemandTrace(tuple(times), tuple(rate for _, rate in rows), now)
    found, begin = 0.0, 0.0
    while begin < trace.end:
        end = min(begin + period, trace.end)
        found += sum(rate * seconds for rate, seconds in trace.pieces(begin, end))
        begin = end
    assert found == pytest.approx(trace.requests, abs=1e-6)
    assert found == pytest.approx(sum(length * rate for length, rate in rows), abs=1e-6)

"""Rates from counters, which may start again at 0."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.demand.counter_rates import CounterRates


@pytest.mark.parametrize(
    ("before", "value", "elapsed", "uptime", "expected"),
    [
        (100, 250, 15.0, inf, 10.0),
        (100, 100, 15.0, inf, 0.0),
        (100, 60, 15.0, inf, 4.0),  # started again some time in the period
        (100, 60, 15.0, 6.0, 10.0),  # 6 s ago
        (100, 160, 15.0, 6.0, 160 / 6),  # the new count exceeds the old one
        (100, 160, 15.0, 15.0, 4.0),
        (100, 5, 15.0, 0.0, 5.0),  # less than a second ago
    ],
)
def test_rate(before: float, value: float, elapsed: float, uptime: float, expected: float) -> None:
    rates = CounterRates()
    assert rates.rate("web", before, 1000.0) is None
    assert rates.rate("web", value, 1000.0 + elapsed, uptime) == pytest.approx(expected)


def test_counters_are_independent_and_can_be_forgotten() -> None:
    rates = CounterRates()
    rates.rate("a", 10, 0.0)
    rates.rate("b", 20, 0.0)
    assert rates.rate("a", 30, 10.0) == 2.0
    rates.keep({"b"})
    assert rates.rate("a", 90, 20.0) is None
    assert rates.rate("b", 40, 20.0) == 1.0
    assert rates.rate("b", 40, 20.0) is None, "no time has passed"


@given(st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 100), st.floats(0, 1000)), max_size=20))
def test_rates_are_never_negative(readings: list[tuple[int, float, float]]) -> None:
    rates, now = CounterRates(), 0.0
    for value, step, uptime in readings:
        now += step
        found = rates.rate("web", value, now, uptime)
        assert found is None or found >= 0.0

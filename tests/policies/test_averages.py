from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.averages import ExponentialMean, WindowRate


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 50)), max_size=60))
def test_the_window_never_reaches_back_further_than_its_span(steps: list[tuple[float, int]]) -> None:
    window, now, events = WindowRate(10.0), 1000.0, []
    for wait, count in steps:
        now += wait
        window.add(now, count)
        events.append((now, count))
        slice_ = 10.0 / WindowRate.SLICES
        most = sum(c for t, c in events if now - t <= 10.0)
        least = sum(c for t, c in events if now - t <= 10.0 - slice_ - 1e-6)
        assert least <= window.count(now) <= most
        assert window.rate(now) == window.count(now) / 10.0


def test_two_a_second_are_never_seen_as_more() -> None:
    window = WindowRate(10.0)
    for number in range(200):
        window.add(number / 2, 1)
        assert window.count(number / 2) <= 20
    assert window.count(99.9) == 20


def test_long_silence_empties_the_window() -> None:
    window = WindowRate(10.0)
    window.add(5.0, 100)
    assert window.count(14.0) == 100
    assert window.count(1e6) == 0


def test_exponential_mean_weighs_by_time() -> None:
    mean = ExponentialMean(10.0)
    assert mean.value is None
    mean.add(100.0, 1.0)
    assert mean.value == 100.0
    mean.add(0.0, 10.0)
    assert mean.value == pytest.approx(100 / math.e)
    mean.add(0.0, 0.0)
    assert mean.value == pytest.approx(100 / math.e)
    finer = ExponentialMean(10.0)
    finer.add(100.0, 1.0)
    for _ in range(100):
        finer.add(0.0, 0.1)
    assert finer.value == pytest.approx(100 / math.e)

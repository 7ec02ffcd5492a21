from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.moving_averages import ExponentialMean, FadingCounts, WindowRate


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
        assert window.rate(now) * 10.0 >= window.count(now)
        if now >= 1010.0 and events[0][0] <= now - 10.0:
            assert window.rate(now) == window.count(now) / 10.0


def test_two_per_second_are_never_counted_as_more() -> None:
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


def test_the_first_rates_cover_less_than_the_window() -> None:
    window = WindowRate(10.0)
    assert window.rate(1000.0) == window.recent_rate(1000.0, 1.0) == 0.0
    for step in range(41):
        window.add(1000.0 + step / 4, 0 if step == 0 else 25)
        if step >= 4:
            assert window.rate(1000.0 + step / 4) == pytest.approx(100.0, rel=0.06)
            assert window.recent_rate(1000.0 + step / 4, 1.0) == window.rate(1000.0 + step / 4)


def told(window: WindowRate, every: float, begin: float, end: float, rate: float) -> None:
    """Add events at ``rate`` per second from ``begin`` to ``end``, one entry per ``every`` seconds."""
    steps = round((end - begin) / every)
    for step in range(1, steps + 1):
        window.add(begin + step * every, round(rate * every))


@pytest.mark.parametrize("every", [0.1, 0.25, 1.0, 3.0])
def test_a_steady_rate_added_rarely_is_not_a_rise(every: float) -> None:
    window = WindowRate(10.0)
    window.add(1000.0, 0)
    for step in range(1, round(60 / every)):
        now = 1000.0 + step * every
        window.add(now, round(1000 * every))
        assert window.recent_rate(now, 1.0) == window.rate(now)


@pytest.mark.parametrize("late", [0.01, 0.1, 0.2])
def test_counts_from_other_workers_are_not_a_rise(late: float) -> None:
    window = WindowRate(10.0)
    window.add(1000.0, 0)
    for step in range(1, 120):
        now = 1000.0 + step / 4
        window.add(now, 10)  # its own
        window.add(now + late, 240)  # the others', of the quarter before
        if step > 4:
            assert window.recent_rate(now + late, 1.0) == window.rate(now + late)
            assert window.recent_rate(now + 0.24, 1.0) == window.rate(now + 0.24)


def test_a_rise_is_detected_after_a_second_and_ends_after_ten() -> None:
    window = WindowRate(10.0)
    window.add(1000.0, 0)
    told(window, 0.1, 1000.0, 1020.0, 100.0)
    told(window, 0.1, 1020.0, 1021.0, 900.0)
    assert window.recent_rate(1021.0, 1.0) == pytest.approx(900.0, rel=0.25)
    assert window.rate(1021.0) == pytest.approx(180.0, rel=0.1)
    told(window, 0.1, 1021.0, 1032.0, 900.0)
    assert window.recent_rate(1032.0, 1.0) == window.rate(1032.0) == pytest.approx(900.0, rel=0.06)
    told(window, 0.1, 1032.0, 1034.0, 100.0)
    assert window.recent_rate(1034.0, 1.0) == window.rate(1034.0), "a fall is not a rise"
    assert window.recent_rate(2000.0, 1.0) == 0.0


@pytest.mark.parametrize("rate", [0.5, 5.0, 50.0])
def test_chance_is_rarely_a_rise(rate: float) -> None:
    chance, window, now, rises = Random(1), WindowRate(10.0), 1000.0, 0
    window.add(now, 0)
    while now < 3000.0:
        now += chance.expovariate(rate)
        window.add(now, 1)
        rises += window.recent_rate(now, 1.0) > window.rate(now)
    assert rises <= 0.001 * 2000 * rate


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


def test_counts_fade_but_keep_their_ratio() -> None:
    counts = FadingCounts(3, 10.0)
    counts.add((100, 50, 0), 1e6)
    assert counts.values == [100.0, 50.0, 0.0]
    counts.add((0, 0, 100), 1e6 + 10.0)
    first, second, third = counts.values
    assert (first / third, second / first) == pytest.approx((math.exp(-1), 0.5))


@given(st.lists(st.tuples(st.floats(0, 5e3), st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=40))
def test_fading_counts_never_overflow(steps: list[tuple[float, int, int]]) -> None:
    counts, now, expected = FadingCounts(2, 10.0), 0.0, [0.0, 0.0]
    for seconds, one, other in steps:
        now += seconds
        fade = math.exp(-seconds / 10.0)
        expected = [value * fade + count for value, count in zip(expected, (one, other), strict=True)]
        counts.add((one, other), now)
    assert all(map(math.isfinite, counts.values))
    whole, found = sum(expected), sum(counts.values)
    if whole > 1e-6:
        assert [v / found for v in counts.values] == pytest.approx([v / whole for v in expected], abs=1e-6)


def test_counts_are_taken_over_with_their_age() -> None:
    old = FadingCounts(2, 10.0)
    old.add((10, 20), 100.0)
    old.add((0, 0), 110.0)
    new = FadingCounts(3, 10.0)
    new.take_over(old, (1, None, 0))
    new.add((0, 30, 0), 110.0)
    assert [value / new.values[1] for value in new.values] == pytest.approx(
        [20 * math.exp(-1) / 30, 1, 10 * math.exp(-1) / 30]
    )

"""Checks that a histogram's percentiles are accurate to 0.5 %, and that merging loses no values."""

from __future__ import annotations

import pickle
from math import ceil, nextafter
from random import Random

import pytest

from lbdns_tools.load.latency_histogram import HIGHEST, LOWEST, LatencyHistogram


def filled(values: list[float]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for value in values:
        histogram.add(value)
    return histogram


@pytest.mark.parametrize("percent", [0, 1, 50, 90, 95, 99, 99.9])
def test_percentiles_are_within_half_a_per_cent(percent: float) -> None:
    chance = Random(1)
    values = [min(999.0, max(1e-6, chance.lognormvariate(-4, 3))) for _ in range(5000)]
    exact = sorted(values)[max(1, ceil(percent * len(values) / 100 - 1e-9)) - 1]
    assert filled(values).percentile(percent) == pytest.approx(exact, rel=0.005)


def test_every_time_of_the_range_is_within_half_a_per_cent() -> None:
    value, worst = LOWEST, 0.0
    while value < HIGHEST:
        told = filled([value, 2 * HIGHEST]).percentile(50)
        assert told is not None
        worst = max(worst, abs(told / value - 1))
        value *= 1.0047
    assert 0.004 < worst <= 0.005


def test_the_ends_of_the_range() -> None:
    for value in (LOWEST, nextafter(LOWEST, 0), nextafter(HIGHEST, 0), HIGHEST, 5e9):
        one = filled([value])
        assert (one.count, one.percentile(100), one.mean, one.percentile(50)) == (1, value, value, value)
    late = filled([-1e-5, 0.0, 0.0])
    assert (late.count, late.percentile(100), late.mean, late.percentile(99)) == (3, 0.0, 0.0, 0.0)
    over = filled([2000.0, 3000.0, 4000.0])
    assert over.percentile(50) == 4000.0  # beyond the range the longest is all that is known


def test_mean_shortest_and_longest_are_exact() -> None:
    values = [0.0123, 0.001, 1.7, 900.0]
    histogram = filled(values)
    assert (histogram.shortest, filled([5.0, -1e-5]).shortest, LatencyHistogram().shortest) == (0.001, 0.0, None)
    histogram.merge(filled([]))
    assert histogram.shortest == 0.001
    histogram.merge(filled([0.0005]))
    assert histogram.shortest == 0.0005
    histogram = filled(values)
    assert histogram.mean == sum(values) / 4
    assert histogram.percentile(100) == histogram.percentile(100) == 900.0


def test_ranks_are_not_off_by_rounding() -> None:
    values = [float(i) for i in range(1, 21)]
    assert filled(values).percentile(95) == pytest.approx(19, rel=0.005)
    assert filled(values).percentile(5) == pytest.approx(1, rel=0.005)


def test_nothing_has_no_result() -> None:
    histogram = LatencyHistogram()
    assert (histogram.count, histogram.mean, histogram.percentile(100), histogram.percentile(99)) == (
        0,
        None,
        None,
        None,
    )


@pytest.mark.parametrize("percent", [-0.1, 100.1])
def test_a_percentile_that_is_none(percent: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        filled([1.0]).percentile(percent)


def test_merged_is_the_same_as_added_together() -> None:
    chance = Random(2)
    values = [chance.expovariate(10) for _ in range(400)]
    merged = filled(values[:100])
    merged.merge(filled(values[100:]))
    together = filled(values)
    assert merged.state()[1:] == together.state()[1:]
    assert merged.sum == pytest.approx(together.sum)


def test_state_survives_the_wire() -> None:
    histogram = filled([0.0, 0.01, 0.01, 3.0, 5000.0])
    assert pickle.loads(pickle.dumps(histogram)).state() == histogram.state()


def test_state_holds_sum_ends_and_the_buckets() -> None:
    total, longest, shortest, *buckets = filled([0.0, 0.01, 0.01, 3.0, 5000.0]).state()
    assert (total, longest, shortest) == (5003.02, 5000.0, 0.0)
    assert buckets[1::2] == [1, 2, 1, 1]
    assert buckets[::2] == sorted(buckets[::2])
    assert LatencyHistogram().state() == [0.0, 0.0, 0.0]

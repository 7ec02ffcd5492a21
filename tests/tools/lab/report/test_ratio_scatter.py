"""Tests of the estimates of how much ratios vary, and of how extreme ratios can be by chance alone."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns_tools.lab.report.ratio_scatter import ChanceRange, deviation, error_of_mean, extreme

EIGHT = [[1.1, 0.9]] * 8


def study(seed: int, points: int = 27, repetitions: int = 4, scatter: float = 0.08) -> list[list[float]]:
    """Return random ratios for points that all have the true ratio 1.03."""
    draw = Random(seed).gauss
    return [[1.03 * draw(1.0, scatter) for _ in range(repetitions)] for _ in range(points)]


def test_the_deviation_is_that_of_one_ratio() -> None:
    assert deviation(EIGHT) == pytest.approx(0.1 * 2**0.5), "as statistics.stdev((1.1, 0.9))"
    assert deviation([[2.2, 1.8]] * 8) == pytest.approx(0.1 * 2**0.5), "a part of the point's mean"
    assert deviation(study(1, points=200)) == pytest.approx(0.08, rel=0.1)


def test_points_that_differ_are_no_scatter() -> None:
    assert deviation([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]] * 3) == 0.0


def test_the_error_of_the_mean_shrinks_with_points_and_repetitions() -> None:
    assert error_of_mean(EIGHT) == pytest.approx(0.1 * 2**0.5 / 16**0.5)
    assert error_of_mean([[1.1, 0.9] * 4] * 8) == pytest.approx(0.1 * (8 / 7) ** 0.5 / 64**0.5)


@pytest.mark.parametrize("points", [[], [[]], [[1.0]] * 27, [[1.1, 0.9]] * 7, [[0.0, 0.0]] * 9])
def test_too_few_repetitions_tell_nothing(points: list[list[float]]) -> None:
    assert (deviation(points), error_of_mean(points), extreme(points, min)) == (None, None, None)


def test_a_point_without_a_ratio_is_left_out() -> None:
    assert extreme([*EIGHT, []], min) == extreme(EIGHT, min)
    assert error_of_mean([*EIGHT, []]) == error_of_mean(EIGHT)


def test_without_scatter_the_extremes_are_the_mean() -> None:
    alike = [[1.25, 1.25, 1.25]] * 5
    assert extreme(alike, min) == extreme(alike, max) == ChanceRange(1.25, 1.25)


def test_the_least_of_many_is_below_the_mean_and_the_most_above() -> None:
    least, most = extreme(study(2), min), extreme(study(2), max)
    assert least is not None
    assert most is not None
    assert 0.86 < least.low < least.high < 1.01 < 1.05 < most.low < most.high < 1.20


def test_the_least_of_points_that_are_alike_is_nearly_always_within_the_range() -> None:
    inside = 0
    for seed in range(20):
        points = study(100 + seed)
        found = extreme(points, min)
        assert found is not None
        inside += found.low <= min(fmean(ratios) for ratios in points) <= found.high
    assert inside >= 17, "95 of 100, so 19 of 20 in the mean"


def test_a_point_that_really_is_worse_is_beyond_it() -> None:
    points = [*study(3, points=26), [0.80, 0.78, 0.84, 0.82]]
    found = extreme(points, min)
    assert found is not None
    assert min(fmean(ratios) for ratios in points) < found.low


@settings(max_examples=25)  # each makes up three thousand studies
@given(st.lists(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=4), min_size=8, max_size=12))
def test_any_ratios(points: list[list[float]]) -> None:
    least, most = extreme(points, min), extreme(points, max)
    assert least is not None
    assert most is not None
    assert least.low <= least.high
    assert most.low <= most.high
    assert least.low <= fmean(fmean(ratios) for ratios in points) * 1.001
    assert extreme(points, min) == least, "the same figures make the same report"

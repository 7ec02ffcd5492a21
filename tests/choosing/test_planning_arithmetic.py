"""Tests of the arithmetic of planning: the native extension computes exactly the same numbers as Python."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.choosing.capacity_estimate import MIN_VARIANCE, python_variance_between_members, variance_between_members
from lbdns.choosing.robust_estimates import winsorised
from lbdns.policies.best import fill_to_level, python_fill_to_level
from lbdns.policies.operating_point import operating_point, python_operating_point
from lbdns.policies.weighted import python_smooth_order, smooth_order
from tests.needs import needs

pytestmark = needs(native=True)

LARGEST = 12  # members
capacities = st.floats(0.001, 1e6)
core_counts = st.floats(0.001, 256) | st.sampled_from([0.5, 1.5, 2.5, 1.0, 2.0, 64.0])
servers = st.lists(st.tuples(capacities, core_counts), min_size=1, max_size=LARGEST)
speeds = st.tuples(st.floats(0.001, 1e6), st.floats(MIN_VARIANCE, 100))
fills = st.tuples(st.floats(-1e4, 1e5), st.floats(1e-3, 1e6), st.floats(1e-3, 1e9) | st.just(float("inf")))
shares = st.tuples(st.floats(0, 1), st.floats(-1, 1))


@given(servers, st.floats(0, 1e7), st.floats(0, 1e6) | st.just(float("inf")))
@example([(100.0, 64.0)] * 3, 250.0, float("inf"))
@example([(10.0, 1.0), (40.0, 4.0)], 1000.0, 3.0)
def test_the_operating_point_is_the_same(members: list[tuple[float, float]], rate: float, in_progress: float) -> None:
    capacity, cores = [one for one, _ in members], [m for _, m in members]
    assert operating_point(capacity, cores, rate, in_progress) == python_operating_point(
        capacity, cores, rate, in_progress
    )


@given(st.lists(speeds, min_size=1, max_size=LARGEST))
@example([(100.0, 0.01), (200.0, 0.01), (400.0, 0.0001), (50.0, 0.5)])
def test_the_variance_between_members_is_the_same(known: list[tuple[float, float]]) -> None:
    inner = winsorised([speed for speed, _ in known])
    assert variance_between_members(known, inner) == python_variance_between_members(known, inner)


@given(st.lists(fills, min_size=1, max_size=LARGEST), st.floats(1e-3, 1e7))
@example([(0.0, 1.0, 2.0), (5.0, 1.0, 2.0), (1.0, 3.0, float("inf"))], 10.0)
def test_the_parts_are_the_same(members: list[tuple[float, float, float]], amount: float) -> None:
    loads, widths, limits = ([member[column] for member in members] for column in range(3))
    assert fill_to_level(loads, widths, limits, amount) == python_fill_to_level(loads, widths, limits, amount)


@given(st.lists(shares, max_size=LARGEST), st.integers(0, 40))
@example([(0.25, 0.0)] * 4, 64)
@example([(1.0, -1.0), (0.0, 1.0)], 3)
def test_the_order_is_the_same(members: list[tuple[float, float]], length: int) -> None:
    weights, credits = [weight for weight, _ in members], [credit for _, credit in members]
    assert smooth_order(weights, credits, length) == python_smooth_order(weights, credits, length)


def test_a_capacity_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="every capacity must be above 0"):
        operating_point([1.0, 0.0], [1.0, 1.0], 1.0)

"""Percentiles by nearest rank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.percentiles import percentile


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 50), (50.1, 51), (99, 99), (99.01, 100), (100, 100)])
def test_percentiles_of_one_to_a_hundred(percent: float, value: int) -> None:
    assert percentile(range(100, 0, -1), percent) == value


def test_a_rank_is_not_rounded_up_by_a_rounding_error() -> None:
    for count in range(20, 2001, 20):
        assert percentile(range(1, count + 1), 95) == count * 95 // 100


def test_the_percentile_of_no_values_is_zero() -> None:
    assert percentile([], 50) == 0.0


@pytest.mark.parametrize("percent", [-1, 100.5, float("nan")])
def test_a_percentile_is_between_0_and_100(percent: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentile([1.0], percent)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=300))
def test_at_most_one_value_in_a_hundred_exceeds_the_99th_percentile(values: list[float]) -> None:
    found = percentile(values, 99)
    assert found in values
    assert sum(value > found for value in values) <= 0.01 * len(values)

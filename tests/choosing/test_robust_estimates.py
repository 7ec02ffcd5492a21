from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.robust_estimates import limited_weights, robust_mean

POSITIVE = st.floats(0.001, 1e6)


@pytest.mark.parametrize(
    ("weights", "limited"),
    [
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
        ([1e9, 1.0, 1.0], [1.0, 1.0, 1.0]),
        ([10.0, 8.0, 1.0], [1.0, 1.0, 1.0]),
        ([10.0, 3.0, 2.0, 2.0], [3.5, 3.0, 2.0, 2.0]),
        ([5.0, 3.0], [5.0, 3.0]),
        ([5.0, 3.0, 0.0], [5.0, 3.0, 0.0]),
        ([0.0, 0.0, 2.0], [0.0, 0.0, 2.0]),
        ([], []),
    ],
)
def test_limited_weights(weights: list[float], limited: list[float]) -> None:
    assert limited_weights(weights) == limited


@given(st.lists(POSITIVE, min_size=3, max_size=20))
def test_no_member_has_more_than_a_third(weights: list[float]) -> None:
    limited = limited_weights(weights)
    assert max(limited) <= sum(limited) / 3 * (1 + 1e-6)
    assert all(0 < new <= old for new, old in zip(limited, weights, strict=True))


@pytest.mark.parametrize(
    ("values", "weights", "mean"),
    [
        ([3.0, 1.0, 2.0], [1.0, 1.0, 1.0], 2.0),
        ([1.0, 2.0], [1.0, 1.0], 1.5),
        ([1.0, 2.0], [3.0, 1.0], 1.25),
        ([1.0, 2.0, 100.0], [1.0, 1.0, 0.0], 1.5),
        ([7.0], [1e-300], 7.0),
        ([4.0, 4.0, 4.0], [1.0, 2.0, 3.0], 4.0),
        ([0.0, 1.0, 2.0, 3.0, 1e9], [1.0] * 5, 2.0),
    ],
)
def test_robust_mean(values: list[float], weights: list[float], mean: float) -> None:
    assert robust_mean(values, weights) == pytest.approx(mean)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=2, max_size=20), POSITIVE, POSITIVE)
def test_no_member_moves_a_mean_out_of_the_range_of_the_others(
    others: list[tuple[float, float]], value: float, weight: float
) -> None:
    values, weights = zip(*others, (value, weight), strict=True)
    mean = robust_mean(values, weights)
    low, high = min(v for v, _ in others), max(v for v, _ in others)
    assert low * (1 - 1e-9) <= mean <= high * (1 + 1e-9)

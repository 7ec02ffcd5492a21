from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.guard_rails.carrying import MARGIN, demand, spare


@pytest.mark.parametrize(
    ("aside", "others", "floor", "expected", "spared"),
    [
        ([2], [0, 1], 0, 0.0, [2]),
        ([2], [0, 1], 2, 0.0, [2]),
        ([2], [0, 1], 2.5, 0.0, []),  # three are needed
        ([3, 2], [0, 1], 3, 0.0, [2]),  # the least bad is taken back
        ([2], [0, 1], 0, 19.0, [2]),
        ([2], [0, 1], 0, 19.1, []),  # 20 requests/s are not 5 % more than what comes
        ([3, 2], [0, 1], 0, 25.0, [2]),
        ([3, 2], [0, 1], 0, 100.0, []),
        ([0, 1], [], 0, 0.0, []),  # nobody else is left
        ([], [0, 1], 3, 0.0, []),
    ],
)
def test_never_more_than_the_rest_can_carry(
    aside: list[int], others: list[int], floor: float, expected: float, spared: list[int]
) -> None:
    assert spare(aside, others, floor, [10.0] * 4, expected) == spared


POOLS = st.lists(st.tuples(st.floats(0.1, 1000), st.booleans()), min_size=1, max_size=12)


@given(POOLS, st.floats(0, 12), st.floats(0, 5000))
def test_what_is_left_suffices_or_everybody_is_left(
    pool: list[tuple[float, bool]], floor: float, expected: float
) -> None:
    capacity = [c for c, _ in pool]
    aside = [i for i, (_, bad) in enumerate(pool) if bad]
    others = [i for i, (_, bad) in enumerate(pool) if not bad]
    kept = spare(aside, others, floor, capacity, expected)
    left = [i for i in range(len(pool)) if i not in kept]
    assert left, "somebody is always left"
    assert set(kept) <= set(aside)
    assert kept == aside[len(aside) - len(kept) :], "the first are taken back first"
    if kept:
        assert len(left) >= floor
        assert sum(capacity[i] for i in left) >= MARGIN * expected * (1 - 1e-9)


@pytest.mark.parametrize(
    ("serving", "failing", "expected"),
    [
        ((0, 1, 2), (), 60.0),
        ((0, 1), (), 30.0),
        ((0, 1), (2,), 45.0),  # a third of the capacity, so a third of what comes is lost
        ((), (2,), 0.0),
        ((0, 3), (), 10.0),  # the fourth doesn't count
    ],
)
def test_demand_counts_what_failing_members_lose(
    serving: tuple[int, ...], failing: tuple[int, ...], expected: float
) -> None:
    assert demand([10.0, 20.0, 30.0, None], [5.0] * 4, serving, failing) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("strong", "before", "expected"),
    [
        (30.0, 15.0, 45.0),  # a rotation sent it a third
        (30.0, 200.0, 120.0),  # that was in the morning; now it is three quarters of what comes, as of the capacity
        (30.0, None, 120.0),
        (30.0, 0.0, 30.0),  # nobody asked for it
    ],
)
def test_who_is_mute_loses_no_more_than_it_was_sent_before(
    strong: float, before: float | None, expected: float
) -> None:
    rates, capacity = [15.0, 15.0, before], [5.0, 5.0, strong]
    assert demand(rates, capacity, (0, 1), (2,), mute=(2,)) == pytest.approx(expected)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.guard_rails.spare_capacity import (
    ALARM_MARGIN,
    MARGIN,
    needed_despite_alarm,
    raised_ramps,
    spare,
    total_demand,
)


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
        ([0, 1], [], 0, 0.0, []),  # no other member is left
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
    assert left, "at least one member is always left"
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
        ((0, 1), (2,), 45.0),  # a third of the capacity, so a third of the requests is lost
        ((), (2,), 0.0),
        ((0, 3), (), 10.0),  # the fourth doesn't count
    ],
)
def test_demand_counts_what_failing_members_lose(
    serving: tuple[int, ...], failing: tuple[int, ...], expected: float
) -> None:
    assert total_demand([10.0, 20.0, 30.0, None], [0.0] * 4, [5.0] * 4, serving, failing) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("handed", "expected"),
    [
        ([1.0, 1.0, 1.0], 45.0),  # a rotation sent it a third, as the others
        ([1.0, 1.0, 6.0], 120.0),
        ([1.0, 1.0, 0.0], 30.0),  # it was not selected
        ([0.0, 0.0, 0.0], 120.0),  # unknown: three quarters, like its share of the capacity
        ([0.0, 0.0, 1.0], 120.0),
    ],
)
def test_a_failing_member_is_missed_by_what_it_is_handed_out(handed: list[float], expected: float) -> None:
    assert total_demand([15.0, 15.0, 999.0], handed, [5.0, 5.0, 30.0], (0, 1), (2,)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("refusing", "others", "load", "coming", "found"),
    [
        ([2], [0, 1], [0.0, 0.0, 9.0], 0.0, []),
        ([2], [0, 1], [0.0, 0.0, 0.0], 15.3, []),  # 20 requests/s are 30 % more than what comes
        ([2], [0, 1], [0.0, 0.0, 0.0], 15.4, [2]),
        ([2], [0, 1], [9.0, 0.0, 0.0], 9.3, []),  # within 1.5 s the others serve 30: the 9 that wait and the new ones
        ([2], [0, 1], [9.0, 0.0, 0.0], 9.4, [2]),
        ([2], [0, 1], [15.0, 0.0, 0.0], 7.6, []),  # member 0 works off its queue, and member 1 can serve the new ones
        ([2], [0, 1], [15.0, 0.0, 0.0], 7.7, [2]),
        ([2], [0, 1], [0.0, 0.0, 44.9], 60.0, [2]),  # then the others will have 4.5 s to do
        ([2], [0, 1], [0.0, 0.0, 45.1], 60.0, []),  # it works off its queue meanwhile: nothing is lost
        ([3, 2], [0, 1], [0.0, 0.0, 2.0, 1.0], 22.0, [3]),  # the member with less load first
        ([3, 2], [0, 1], [0.0, 0.0, 1.0, 2.0], 60.0, [2, 3]),
    ],
)
def test_an_alarm_is_heard_while_the_others_can_do_without(
    refusing: list[int], others: list[int], load: list[float], coming: float, found: list[int]
) -> None:
    assert needed_despite_alarm(refusing, others, load, [10.0] * 4, coming, 1.5) == found


LOADED = st.lists(st.tuples(st.floats(0.1, 1000), st.floats(0, 1000), st.booleans()), min_size=1, max_size=12)


@given(st.floats(0.0, 1e5), st.floats(1.0, 100.0))
def test_a_false_load_does_not_make_the_pool_need_a_member_in_alarm(load: float, capacity: float) -> None:
    """The honest member 1 can serve all requests alone, whatever member 2 reports."""
    assert needed_despite_alarm([0], [1, 2], [5.0, 3.0, load], [100.0, 100.0, capacity], 60.0, 1.5) == []


@given(LOADED, st.floats(0, 5000), st.floats(0.1, 10))
def test_whom_the_others_miss_has_less_to_do_than_they(
    pool: list[tuple[float, float, bool]], coming: float, horizon: float
) -> None:
    capacity, load = [c for c, _, _ in pool], [n for _, n, _ in pool]
    refusing = [i for i, (_, _, refuses) in enumerate(pool) if refuses]
    others = [i for i, (_, _, refuses) in enumerate(pool) if not refuses]
    if not others:
        return
    found = needed_despite_alarm(refusing, others, load, capacity, coming, horizon)
    assert set(found) <= set(refusing)
    could = sum(capacity[i] for i in others)
    waiting = sum(load[i] for i in others)
    if could >= ALARM_MARGIN * (coming + waiting / horizon) * (1 + 1e-9):
        assert found == []
    assert all(load[i] / capacity[i] <= (waiting + horizon * coming) / could * (1 + 1e-9) for i in found)


@pytest.mark.parametrize(
    ("ramps", "coming", "raised"),
    [
        ({}, 100.0, {}),
        ({2: 0.1}, 0.0, {2: 0.1}),
        ({2: 0.1}, 19.0, {2: 0.1}),
        ({2: 0.1}, 24.0, {2: 0.52}),  # 25.2 in all
        ({2: 0.6}, 24.0, {2: 0.6}),
        ({2: 0.1}, 100.0, {2: 1.0}),
        ({1: 0.4, 2: 0.1}, 15.0, {1: 0.4, 2: 0.2875}),
    ],
)
def test_a_ramp_is_no_lower_than_what_the_rest_can_carry(
    ramps: dict[int, float], coming: float, raised: dict[int, float]
) -> None:
    assert raised_ramps(ramps, (0, 1, 2), [10.0] * 3, coming) == pytest.approx(raised)

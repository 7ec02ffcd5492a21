from __future__ import annotations

from random import Random

import pytest

from lbdns.policies.best import best
from lbdns.policies.highest_scores import fastest, nearly_highest, why_fastest
from lbdns.policies.member_columns import MemberView
from tests.policies.views import member, run, view


@pytest.mark.parametrize(
    ("scores", "near"),
    [
        ((90, 90, 90), [0, 1, 2]),
        ((90, 87, 86), [0, 1]),
        ((86, 87, 90), [1, 2]),
        ((0, 100), [1]),
        ((-1, 0), [0, 1]),
        ((), []),
    ],
)
def test_three_points_make_no_difference(scores: tuple[int, ...], near: list[int]) -> None:
    assert nearly_highest(view(*map(member, scores))) == near


def test_members_that_are_not_usable_are_skipped() -> None:
    assert nearly_highest(view(member(99, usable=False), member(60), member(60))) == [1, 2]


@pytest.mark.parametrize(
    ("speeds", "chosen"),
    [((1.0, 1.0, 1.0), [0, 1, 2]), ((1.0, 1.05, 0.9), [0, 1]), ((1.0, 1.2, 0.9), [1]), ((0.0, 0.0, 0.0), [0, 1, 2])],
)
@pytest.mark.parametrize("cores", [1.0, 8.0])
def test_the_fastest_cores_are_chosen(speeds: tuple[float, ...], chosen: list[int], cores: float) -> None:
    pool = view(*(member(90, capacity=speed * cores, cores=cores) for speed in speeds))
    assert fastest(pool, [0, 1, 2]) == chosen


def test_many_slow_cores_are_not_faster_than_a_fast_one() -> None:
    pool = view(member(90, capacity=400.0, cores=8.0), member(90, capacity=100.0, cores=1.0))
    assert fastest(pool, [0, 1]) == [1]


def few(*members: MemberView) -> list[int]:
    return run(best, view(*members, rate=1.0, allowed=20), 4, 3)


def test_a_fuller_or_slower_member_is_never_named() -> None:
    fast, slow = member(90, capacity=2.0), member(92, capacity=1.0)
    assert set(few(slow, fast, member(60, capacity=9.0))) == {1}


def test_equally_fast_members_take_turns() -> None:
    assert few(member(90), member(92), member(60)) == [0, 1] * 6


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([member(90), member(50)], "highest score"),
        ([member(90, capacity=1.0), member(91, capacity=2.0)], "fastest of the 2 members within 3 points of the"),
        ([member(90), member(91), member(20)], "one of 2 members that take turns, because no other member has a much"),
    ],
)
def test_the_reason_is_true(members: list[MemberView], why: str) -> None:
    assert why_fastest(view(*members)).startswith(why)
    chosen = best(view(*members, rate=1.0, allowed=2), None, Random(1)).order[:2]
    assert set(chosen) == set(fastest(view(*members), nearly_highest(view(*members))))

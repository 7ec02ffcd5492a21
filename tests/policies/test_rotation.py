from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.plan import Plan, Selections
from lbdns.policies.rotation import best_score, rotation, round_robin
from tests.policies.views import member, run, view


@pytest.mark.parametrize(
    ("last", "order"), [(None, (0, 2, 3)), (0, (2, 3, 0)), (2, (3, 0, 2)), (3, (0, 2, 3)), (1, (2, 3, 0))]
)
def test_rotation_continues_after_the_member_selected_last(last: int | None, order: tuple[int, ...]) -> None:
    before = None if last is None else Selections(Plan((0,)), (0, 0, 0, 0), last)
    assert rotation([0, 2, 3], before).order == order


def test_best_score_skips_members_that_are_not_usable() -> None:
    pool = view(member(score=10), member(score=99, usable=False), member(score=60), member(score=60))
    assert best_score(pool, None, Random(1)).order == (2, 3)


def test_equal_scores_take_turns_from_plan_to_plan() -> None:
    pool = view(member(score=60), member(score=60), member(score=5))
    first = best_score(pool, None, Random(1))
    again = best_score(pool, Selections(first, (1, 0, 0), 0), Random(1))
    assert (first.order[0], again.order[0]) == (0, 1)


@given(st.lists(st.booleans(), min_size=1, max_size=8).filter(any), st.integers(0, 11), st.integers(1, 20))
def test_rotation_is_strict_across_plans(usable: list[bool], each: int, times: int) -> None:
    pool = view(*(member(usable=flag) for flag in usable))
    members = [i for i, flag in enumerate(usable) if flag]
    order = run(round_robin, pool, each, times)
    assert order == [members[i % len(members)] for i in range(len(order))]


def test_every_answer_names_the_highest_score_at_any_rate() -> None:
    assert set(run(best_score, view(member(10), member(80, load=500.0), member(79)), 100, 3)) == {1}


def test_ties_take_turns() -> None:
    order = run(best_score, view(member(80), member(80), member(79)), 3, 4)
    assert order == [0, 1] * 6


def test_best_score_is_deterministic() -> None:
    pool = view(member(1), member(2))
    assert best_score(pool, None, Random(1)) == best_score(pool, None, Random(2))

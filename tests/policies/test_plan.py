"""Rotation and highest score, shared by several policies."""

from __future__ import annotations

import pytest

from lbdns.policies.plan import Plan, Selections, highest_score, rotation
from tests.policies.views import member, view


@pytest.mark.parametrize(
    ("last", "order"), [(None, (0, 2, 3)), (0, (2, 3, 0)), (2, (3, 0, 2)), (3, (0, 2, 3)), (1, (2, 3, 0))]
)
def test_rotation_continues_after_the_member_selected_last(last: int | None, order: tuple[int, ...]) -> None:
    before = None if last is None else Selections(Plan((0,)), (0, 0, 0, 0), last)
    assert rotation([0, 2, 3], before).order == order


def test_highest_score_skips_members_that_are_not_usable() -> None:
    pool = view(member(score=10), member(score=99, usable=False), member(score=60), member(score=60))
    assert highest_score(pool, None).order == (2, 3)


def test_ties_take_turns_from_plan_to_plan() -> None:
    pool = view(member(score=60), member(score=60), member(score=5))
    first = highest_score(pool, None)
    again = highest_score(pool, Selections(first, (1, 0, 0), 0))
    assert (first.order[0], again.order[0]) == (0, 1)


def test_candidates_are_the_usable_members() -> None:
    assert view(member(), member(usable=False), member()).candidates == [0, 2]

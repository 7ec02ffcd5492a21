from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.plan import Plan, Selections, rotation
from tests.policies.views import member, view


def test_candidates_are_the_usable_members() -> None:
    assert view(member(), member(usable=False), member()).candidates == [0, 2]


@pytest.mark.parametrize(
    ("suspects", "expected"),
    [
        ((False, False, False), [0, 1, 2]),
        ((True, False, False), [1, 2]),
        ((True, True, False), [0, 1, 2]),
        ((True, True, False, False), [0, 1, 2, 3]),
        ((True, False), [0, 1]),
        ((True,), [0]),
    ],
)
def test_overdue_members_are_skipped_while_they_are_fewer_than_half(
    suspects: tuple[bool, ...], expected: list[int]
) -> None:
    assert view(*(member(overdue=flag) for flag in suspects)).on_time == expected


def test_members_that_are_not_usable_do_not_count() -> None:
    pool = view(member(overdue=True), member(usable=False), member(usable=False))
    assert pool.on_time == [0]


@pytest.mark.parametrize(
    ("last", "order"), [(None, (0, 2, 3)), (0, (2, 3, 0)), (2, (3, 0, 2)), (3, (0, 2, 3)), (1, (2, 3, 0))]
)
def test_rotation_continues_after_the_member_selected_last(last: int | None, order: tuple[int, ...]) -> None:
    before = None if last is None else Selections(Plan((0,)), (0, 0, 0, 0), last)
    assert rotation([0, 2, 3], before).order == order


@pytest.mark.parametrize(
    ("plan", "parts"),
    [
        (Plan((0, 1)), ["expected"] * 4),
        (Plan((2, 0, 1), repeat_from=1, probes=1), ["expected"] * 4),
        (Plan((0, 0, 1, 0), repeat_from=2, light=True), ["light", "light", "expected", "expected", "expected"]),
        (Plan((0, 0, 1, 0), repeat_from=2), ["expected", "expected", "overflow", "overflow", "overflow"]),
        (Plan((2, 0, 1), repeat_from=2, probes=1), ["expected", "expected", "overflow"]),
    ],
)
def test_parts(plan: Plan, parts: list[str]) -> None:
    assert [plan.part(taken) for taken in range(len(parts))] == parts


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(0, 30), st.data())
def test_selections_are_counted(order: list[int], selections: int, data: st.DataObject) -> None:
    """The counts are those of a walk through the plan."""
    plan = Plan(tuple(order), repeat_from=data.draw(st.integers(0, len(order) - 1)))
    at = passes = 0
    walked: Counter[int] = Counter()
    for _ in range(selections):
        if at == len(order):
            at, passes = plan.repeat_from, passes + 1
        walked[order[at]] += 1
        at += 1
    assert plan.taken(at, passes) == selections
    assert +plan.counts(at, passes) == walked

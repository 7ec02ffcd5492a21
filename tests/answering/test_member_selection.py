"""Compares the selections from a plan with those of a naive implementation."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering.member_selection import PlanCursor
from lbdns.policies.plan import Plan

MEMBERS = 4


def take(handout: PlanCursor, count: int) -> list[int]:
    """Select ``count`` members, and check that each was the member announced as due."""
    taken = []
    for _ in range(count):
        due = handout.due
        taken.append(handout.next())
        assert taken[-1] == due
    return taken


def test_begins_with_everybody_in_order() -> None:
    assert take(PlanCursor(3), 7) == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("order", "repeat_from", "expected"),
    [
        ((2,), 0, [2, 2, 2, 2, 2, 2, 2]),
        ((0, 1, 2), 0, [0, 1, 2, 0, 1, 2, 0]),
        ((3, 3, 0, 1), 2, [3, 3, 0, 1, 0, 1, 0]),
        ((0, 1, 2), 2, [0, 1, 2, 2, 2, 2, 2]),
        (range(2), 0, [0, 1, 0, 1, 0, 1, 0]),
    ],
)
def test_goes_on_where_the_order_repeats(order: Sequence[int], repeat_from: int, expected: list[int]) -> None:
    handout = PlanCursor(MEMBERS)
    handout.set_plan(Plan(order, repeat_from))
    assert take(handout, 7) == expected


def test_knows_the_last_before_the_first_of_a_new_plan() -> None:
    handout = PlanCursor(MEMBERS)
    assert handout.last is None
    assert handout.selections().last is None
    take(handout, 2)
    handout.set_plan(Plan((3,)))
    assert handout.selections().last == 1
    assert handout.selections().counts == (0, 0, 0, 0)
    take(handout, 1)
    assert handout.selections().last == 3
    assert handout.selections().counts == (0, 0, 0, 1)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    order = draw(st.lists(st.integers(0, MEMBERS - 1), min_size=1, max_size=6))
    return Plan(tuple(order), draw(st.integers(0, len(order) - 1)))


def naive(plan: Plan, count: int) -> list[int]:
    """Return the first ``count`` selections from a plan, in order."""
    endless = list(plan.order)
    while len(endless) < count:
        endless += plan.order[plan.repeat_from :]
    return endless[:count]


@settings(deadline=None)
@given(st.lists(st.tuples(plans(), st.integers(0, 30)), max_size=6))
def test_agrees_with_a_list_of_all_hand_outs(steps: list[tuple[Plan, int]]) -> None:
    handout = PlanCursor(MEMBERS)
    everything: list[int] = []
    for plan, count in steps:
        handout.set_plan(plan)
        expected = naive(plan, count)
        assert take(handout, count) == expected
        everything += expected
        assert handout.selections().plan is plan
        assert handout.selections().counts == tuple(expected.count(i) for i in range(MEMBERS))
        assert handout.selections().last == (everything[-1] if everything else None)
        assert handout.totals() == [everything.count(i) for i in range(MEMBERS)]


@settings(deadline=None)
@given(plans(), st.integers(0, 30), st.permutations([0, 1, 2, None]))
def test_takes_over_totals_and_last(plan: Plan, count: int, mapping: list[int | None]) -> None:
    old = PlanCursor(MEMBERS)
    old.set_plan(plan)
    given_out = take(old, count)
    new = PlanCursor(5)
    new.take_over(old, mapping)
    expected = [0] * 5
    for member in given_out:
        now = mapping[member]
        if now is not None:
            expected[now] += 1
    assert new.totals() == expected
    assert new.last == (mapping[given_out[-1]] if given_out else None)
    assert new.selections().counts == (0,) * 5, "nothing of the new plan is out"

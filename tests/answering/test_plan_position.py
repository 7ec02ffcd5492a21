"""Tests of the position in a plan: no selection is lost that is made while the next plan is made."""

from __future__ import annotations

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.member_selection import PlanCursor
from lbdns.answering.plane import Plane
from lbdns.policies.plan import Plan
from tests.answering.farms import hobbit, pool
from tests.planes import PLANES


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> Plane:
    found: Plane = request.param
    return found


@pytest.fixture(params=[1, 2], ids=["one member", "two members"])
def cursor(request: pytest.FixtureRequest, plane: Plane) -> PlanCursor:
    farm = hobbit(pool(answer="address", answers=request.param))
    return AnswerTable(farm, plane).cursors["web", "round_robin"]


def select(cursor: PlanCursor, times: int) -> None:
    for _ in range(times):
        cursor.next()


def test_selections_that_are_made_while_a_plan_is_made_are_counted_with_the_next_ones(cursor: PlanCursor) -> None:
    select(cursor, 4)
    counted = cursor.selections()
    assert counted.counts == (2, 1, 1)
    select(cursor, 2)  # members 1 and 2
    cursor.set_plan(Plan((0, 2)), counted=counted)
    assert cursor.selections().counts == (0, 1, 1)
    assert cursor.last == 2
    select(cursor, 1)
    counted = cursor.selections()
    assert counted.counts == (1, 1, 1)
    select(cursor, 1)
    cursor.set_plan(Plan((1,)), counted=counted)
    assert cursor.selections().counts == (0, 0, 1)
    cursor.set_plan(Plan((1,)), counted=cursor.selections())
    assert cursor.selections().counts == (0, 0, 0)
    assert cursor.totals() == [3, 2, 3]


def test_selections_that_nobody_counts_are_only_in_the_totals(cursor: PlanCursor) -> None:
    select(cursor, 5)
    cursor.set_plan(Plan((1, 0), repeat_from=1))
    assert cursor.selections().counts == (0, 0, 0)
    assert cursor.last == 1
    select(cursor, 4)
    assert cursor.selections().counts == (3, 1, 0)
    assert cursor.totals() == [5, 3, 1]
    assert cursor.taken == 4


def test_the_position_of_a_plan_that_ends_is_that_of_its_last_selection(cursor: PlanCursor) -> None:
    cursor.set_plan(Plan((2, 1), repeat_from=1))
    select(cursor, 6)  # 2, 1, and 1 four more times
    cursor.set_plan(Plan((0,)))
    assert cursor.totals() == [0, 5, 1]
    assert cursor.last == 1


def test_selections_of_a_follower_count_like_our_own(cursor: PlanCursor) -> None:
    select(cursor, 2)
    cursor.add_selections({2: 5})
    assert cursor.selections().counts == (1, 1, 5)
    assert cursor.taken == 2, "they do not move the position"
    counted = cursor.selections()
    cursor.add_selections({0: 3})  # while the plan is made
    cursor.set_plan(Plan((0,)), counted=counted)
    assert cursor.selections().counts == (3, 0, 0)
    assert cursor.totals() == [4, 1, 5]


def test_a_follower_receives_each_plan(cursor: PlanCursor) -> None:
    plans: list[Plan] = []
    cursor.on_plan = plans.append
    cursor.set_plan(Plan((0, 2)))
    cursor.set_plan(Plan((1,)))
    assert [plan.order for plan in plans] == [(0, 2), (1,)]

"""Tests of shadow cursors: they select as a server would, and count the selections that would have been diverted."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.planning.shadow import ShadowCursor
from lbdns.policies.plan import Plan
from tests.policies.views import hand_out

MEMBERS = 4
members = st.integers(0, MEMBERS - 1)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    order = draw(st.lists(members, min_size=1, max_size=9))
    return Plan(tuple(order), draw(st.integers(0, len(order) - 1)))


#: What the live plan handed out, by member, before each new plan
periods = st.lists(st.tuples(plans(), st.lists(st.integers(0, 12), min_size=MEMBERS, max_size=MEMBERS)), max_size=6)


def counted(order: list[int]) -> list[int]:
    counts = Counter(order)
    return [counts[i] for i in range(MEMBERS)]


@given(periods)
def test_it_makes_as_many_selections_as_the_live_plan(history: list[tuple[Plan, list[int]]]) -> None:
    shadow, last = ShadowCursor(MEMBERS), None
    totals, diverted = [0] * MEMBERS, 0
    for plan, live in history:
        shadow.end_plan([0] * MEMBERS)
        shadow.set_plan(plan)
        expected = hand_out(plan, sum(live))
        last = expected[-1] if expected else last
        totals = [one + two for one, two in zip(totals, counted(expected), strict=True)]
        assert shadow.totals_after(sum(live)) == totals
        handed = shadow.end_plan(live)
        assert (handed.plan, list(handed.counts), handed.last) == (plan, counted(expected), last)
        diverted += sum(max(0, one - two) for one, two in zip(live, counted(expected), strict=True))
        assert (shadow.totals, shadow.diverted) == (totals, diverted)


@given(plans(), st.integers(0, 40))
def test_equal_selections_divert_nothing(plan: Plan, count: int) -> None:
    shadow = ShadowCursor(MEMBERS)
    shadow.set_plan(plan)
    shadow.end_plan(counted(hand_out(plan, count)))
    assert shadow.diverted == 0


@pytest.mark.parametrize(
    ("live", "diverted"), [([4, 0, 0, 0], 0), ([0, 4, 0, 0], 4), ([1, 1, 1, 1], 3), ([0, 0, 0, 0], 0)]
)
def test_diverted_selections(live: list[int], diverted: int) -> None:
    shadow = ShadowCursor(MEMBERS)
    shadow.set_plan(Plan((0,)))
    shadow.end_plan(live)
    assert shadow.diverted == diverted


def test_the_order_makes_no_difference() -> None:
    shadow = ShadowCursor(MEMBERS)
    shadow.set_plan(Plan((3, 2, 1, 0)))
    shadow.end_plan(counted([0, 1, 2, 3]))
    assert shadow.diverted == 0


def test_after_a_reload_it_continues_with_the_remaining_members() -> None:
    old, new = ShadowCursor(3), ShadowCursor(2)
    old.end_plan([0, 0, 0])
    old.set_plan(Plan((2, 0, 1)))
    old.end_plan([0, 4, 0])  # itself selects 2, 0, 1, 2
    new.take_over(old, [1, None, 0])
    assert new.totals == [2, 1]
    assert new.diverted == 3
    assert new.totals_after(1) == [3, 1], "the rest of the plan there was"
    assert new.end_plan([0, 0]).last == 0, "the third member is the first now"


def test_without_remaining_members_all_take_turns() -> None:
    old, new = ShadowCursor(2), ShadowCursor(3)
    old.set_plan(Plan((1,)))
    new.take_over(old, [0, None])
    assert new.totals_after(3) == [1, 1, 1]

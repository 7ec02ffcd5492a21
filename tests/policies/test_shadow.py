"""A shadow: given out in thought as a server gives out a plan, and compared with what went out."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.plan import Plan
from lbdns.policies.shadow import Shadow
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
def test_it_gives_out_as_a_server_does_and_as_many(history: list[tuple[Plan, list[int]]]) -> None:
    shadow, last = Shadow(MEMBERS), None
    totals, diverted = [0] * MEMBERS, 0
    for plan, live in history:
        shadow.give_out([0] * MEMBERS)
        shadow.set_plan(plan)
        expected = hand_out(plan, sum(live))
        last = expected[-1] if expected else last
        totals = [one + two for one, two in zip(totals, counted(expected), strict=True)]
        assert shadow.totals_after(sum(live)) == totals
        handed = shadow.give_out(live)
        assert (handed.plan, list(handed.counts), handed.last) == (plan, counted(expected), last)
        diverted += sum(max(0, one - two) for one, two in zip(live, counted(expected), strict=True))
        assert (shadow.totals, shadow.diverted) == (totals, diverted)


@given(plans(), st.integers(0, 40))
def test_who_does_the_same_diverts_nothing(plan: Plan, count: int) -> None:
    shadow = Shadow(MEMBERS)
    shadow.set_plan(plan)
    shadow.give_out(counted(hand_out(plan, count)))
    assert shadow.diverted == 0


@pytest.mark.parametrize(
    ("live", "diverted"),
    [([4, 0, 0, 0], 0), ([0, 4, 0, 0], 4), ([1, 1, 1, 1], 3), ([0, 0, 0, 0], 0)],
)
def test_what_would_have_gone_elsewhere(live: list[int], diverted: int) -> None:
    shadow = Shadow(MEMBERS)
    shadow.set_plan(Plan((0,)))
    shadow.give_out(live)
    assert shadow.diverted == diverted


def test_another_order_of_the_same_is_no_difference() -> None:
    shadow = Shadow(MEMBERS)
    shadow.set_plan(Plan((3, 2, 1, 0)))
    shadow.give_out(counted([0, 1, 2, 3]))
    assert shadow.diverted == 0


def test_with_other_members_it_goes_on_with_those_that_remain() -> None:
    old, new = Shadow(3), Shadow(2)
    old.give_out([0, 0, 0])
    old.set_plan(Plan((2, 0, 1)))
    old.give_out([0, 4, 0])  # hands out 2, 0, 1, 2 itself
    new.take_over(old, [1, None, 0])
    assert new.totals == [2, 1]
    assert new.diverted == 3
    assert new.totals_after(1) == [3, 1], "the rest of the plan there was"
    assert new.give_out([0, 0]).last == 0, "who was the third is the first"


def test_when_nobody_of_its_plan_remains_all_have_their_turn() -> None:
    old, new = Shadow(2), Shadow(3)
    old.set_plan(Plan((1,)))
    new.take_over(old, [0, None])
    assert new.totals_after(3) == [1, 1, 1]

"""Tests of plans that are merged from the plans of a pool's sites."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.member_selection import PlanCursor
from lbdns.policies.merged_plan import PlanPart, merged_plan
from lbdns.policies.plan import Plan

SITES = ((0, 1), (2, 3, 4), (5,))


def taken(plan: Plan, count: int) -> list[int]:
    cursor = PlanCursor(6)
    cursor.set_plan(plan)
    return [cursor.next() for _ in range(count)]


@st.composite
def parts(draw: st.DrawFn) -> list[PlanPart]:
    found = []
    for members in draw(st.lists(st.sampled_from(SITES), min_size=1, max_size=3, unique=True)):
        order = draw(st.lists(st.sampled_from(members), min_size=1, max_size=30))
        plan = Plan(tuple(order), draw(st.integers(0, len(order) - 1)), light=draw(st.booleans()))
        found.append(PlanPart(plan, draw(st.floats(0.05, 1)), draw(st.floats(-1, 1))))
    return found


@given(parts())
def test_each_part_keeps_its_order_and_its_share_of_every_prefix(found: list[PlanPart]) -> None:
    total = sum(part.share for part in found)
    plan = merged_plan(found, 6)
    selected = taken(plan, len(plan.order))
    for part in found:
        mine = [member for member in selected if member in part.plan.order]
        assert mine == taken(part.plan, len(mine))
        if part is not max(found, key=lambda part: part.share):
            # The largest part fills the gaps, so each other part may be a selection or two ahead or behind
            assert abs(len(mine) - part.credit - len(selected) * part.share / total) <= 2.5 + len(found)
    assert plan.light is max(found, key=lambda part: part.share).plan.light


@given(parts())
def test_the_weights_are_the_shares_of_the_members(found: list[PlanPart]) -> None:
    plan, total = merged_plan(found, 6), sum(part.share for part in found)
    if len(found) == 1:
        assert plan is found[0].plan
        return
    assert abs(sum(plan.weights) - 1) < 1e-9
    for part in found:
        whole = sum(plan.weights[member] for member in set(part.plan.order))
        assert abs(whole - part.share / total) < 1e-9


@given(parts())
def test_the_ranking_begins_with_the_largest_part(found: list[PlanPart]) -> None:
    plan = merged_plan(found, 6)
    if len(found) > 1:
        largest = max(found, key=lambda part: part.share)
        assert set(plan.ranking[: len(set(largest.plan.order))]) == set(largest.plan.order)
        assert set(plan.ranking) == {member for part in found for member in part.plan.order}

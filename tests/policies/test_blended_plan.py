"""Tests of plans that are blended from the plans of a pool and of its backup."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.member_selection import PlanCursor
from lbdns.policies.blended_plan import blended_plan
from lbdns.policies.plan import Plan

SHARES = st.floats(0.01, 0.99)


def taken(plan: Plan, members: int, count: int) -> list[int]:
    cursor = PlanCursor(members)
    cursor.set_plan(plan)
    return [cursor.next() for _ in range(count)]


@st.composite
def plans(draw: st.DrawFn, members: int) -> Plan:
    order = draw(st.lists(st.integers(0, members - 1), min_size=1, max_size=40))
    begin = draw(st.integers(0, len(order) - 1))
    probes = draw(st.integers(0, begin))
    return Plan(tuple(order), begin, probes=probes, light=draw(st.booleans()))


@given(plans(3), plans(2), SHARES, st.floats(-1, 1))
def test_every_prefix_has_the_share_and_both_orders_are_kept(
    own: Plan, backup: Plan, share: float, credit: float
) -> None:
    blended = blended_plan(own, backup, 3, share, credit)
    found = taken(blended, 5, 150)
    mine = [i for i in found if i < 3]
    assert mine == taken(own, 3, len(mine))
    assert found[: own.probes] == list(own.order[: own.probes])
    count = 0
    for place, member in enumerate(blended.order[own.probes :], 1):
        count += member >= 3
        assert abs(count - share * place - credit) <= 2
    in_order = [i - 3 for i in blended.order if i >= 3]
    assert in_order == taken(backup, 2, len(in_order))
    assert blended.repeat_from < len(blended.order)


@given(plans(2), plans(2), st.floats(0.05, 0.9))
def test_the_share_of_the_repeated_part(own: Plan, backup: Plan, share: float) -> None:
    blended = blended_plan(own, backup, 2, share)
    again = blended.order[blended.repeat_from :]
    assert abs(sum(i >= 2 for i in again) / len(again) - share) < 0.02


def test_all_answers_name_the_backup() -> None:
    backup = Plan((0, 1, 1), 1, (0.4, 0.6))
    for own in (Plan((0, 1)), None):
        blended = blended_plan(own, backup, 2 if own else 0, 1.0)
        size = 2 if own else 0
        assert taken(blended, size + 2, 5) == [i + size for i in (0, 1, 1, 1, 1)]
        assert blended.weights == (*(0.0,) * size, 0.4, 0.6)
    assert blended_plan(Plan((0, 1, 1), 1, probes=1), backup, 2, 1.0).order[0] == 0  # a probe is kept


def test_shares_of_members() -> None:
    blended = blended_plan(Plan((0, 1), 0, (0.75, 0.25)), Plan((0, 1)), 2, 0.2)
    assert [round(weight, 3) for weight in blended.weights] == [0.6, 0.2, 0.1, 0.1]


def test_the_ranking_begins_with_the_own_members() -> None:
    blended = blended_plan(Plan((0,), ranking=(1, 0)), Plan((1, 0)), 2, 0.5)
    assert blended.ranking == (1, 0, 3, 2)


def test_a_small_share_of_few_answers_is_carried_over() -> None:
    own, backup, credit, count = Plan((0,)), Plan((0,)), 0.0, Counter[int]()
    for _ in range(100):  # plans with one answer each
        member = taken(blended_plan(own, backup, 1, 0.1, credit), 2, 1)[0]
        count[member] += 1
        credit += 0.1 - (member == 1)
    assert 8 <= count[1] <= 12

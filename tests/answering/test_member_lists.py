"""Tests of answers that name several members: the lists themselves, the cursor that numbers them, and both planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering import member_lists
from lbdns.answering.member_lists import LOOKAHEAD, MAX_LISTS, ListCursor, list_at, longest_addition
from lbdns.answering.member_selection import PlanCursor
from lbdns.answering.plane import PYTHON_PLANE, NativeListCursor, NativePlane, Plane
from lbdns.policies.plan import Plan
from tests.needs import needs
from tests.planes import PLANES

ALL = range(8)
PAYLOAD = 1232


def cursor_on(plane: Plane, members: int, answers: int) -> ListCursor:
    table = plane.native_table(PAYLOAD)
    return NativeListCursor(members, table, 0.0, answers) if table else ListCursor(members, 0, 0.0, answers)


# Which members follow the first one

LIGHT = Plan((4, 5, 4, 5, 0, 1, 2), repeat_from=4, light=True, ranking=(4, 5, 3, 2, 1, 0))
HEAVY = Plan((0, 1, 0, 2, 3), repeat_from=3, ranking=(5, 3, 2, 1, 0))
PROBED = Plan((7, 6, 0, 1), repeat_from=2, probes=2, ranking=(1, 0, 2))


@pytest.mark.parametrize(
    ("plan", "at", "usable", "answers", "members"),
    [
        (Plan((0, 1, 2)), 0, ALL, 3, (0, 1, 2)),  # a rotation rotates whole lists ...
        (Plan((0, 1, 2)), 1, ALL, 3, (1, 2, 0)),
        (Plan((0, 1, 2)), 2, ALL, 3, (2, 0, 1)),
        (Plan((0, 1, 2)), 2, ALL, 2, (2, 0)),
        (Plan((0, 1, 2)), 2, ALL, 1, (2,)),
        (Plan((0, 1, 2)), 0, ALL, 16, (0, 1, 2)),  # ... and fewer members than wanted are all named
        (Plan((0, 1, 2)), 0, (0, 2), 3, (0, 2)),
        (Plan((0, 1, 2)), 0, (), 3, (0,)),  # the first one is the plan's, whatever has become of it
        (Plan((0, 0, 1, 0, 2)), 0, ALL, 3, (0, 1, 2)),  # draws without replacement
        (Plan((0, 0, 1, 0, 2)), 4, ALL, 3, (2, 0, 1)),
        (Plan((3,), ranking=(3, 1, 0, 2)), 0, ALL, 3, (3, 1, 0)),  # the ranking completes what the plan lacks
        (Plan((3,), ranking=(3, 1, 0, 2)), 0, (0, 3), 3, (3, 0)),
        (HEAVY, 0, ALL, 3, (0, 1, 2)),
        (HEAVY, 2, ALL, 4, (0, 2, 3, 5)),
        (HEAVY, 3, ALL, 3, (2, 3, 5)),  # beyond the expected answers, only their repetition counts
        (LIGHT, 0, ALL, 3, (4, 5, 3)),  # light traffic: not the members that only heavy traffic would get
        (LIGHT, 3, ALL, 3, (5, 4, 3)),
        (LIGHT, 4, ALL, 3, (0, 1, 2)),
        (LIGHT, 6, ALL, 5, (2, 0, 1, 4, 5)),
        (PROBED, 0, range(6), 3, (7, 0, 1)),  # a probed member is never an alternative
        (PROBED, 1, range(6), 3, (6, 0, 1)),
        (PROBED, 2, range(6), 3, (0, 1, 2)),
        (Plan((0,) * LOOKAHEAD + (1, 2), ranking=(2, 1, 0)), 0, ALL, 3, (0, 1, 2)),
        (Plan((0,) * (LOOKAHEAD + 1) + (1, 2), ranking=(2, 1, 0)), 0, ALL, 3, (0, 2, 1)),  # too far ahead
    ],
)
def test_the_list_for_a_selection(
    plan: Plan, at: int, usable: tuple[int, ...], answers: int, members: tuple[int, ...]
) -> None:
    assert list_at(plan, at, usable, answers) == members


@st.composite
def plans(draw: st.DrawFn, members: int = 8) -> Plan:
    """Return a plan for some of the members, with a ranking of all candidates."""
    candidates = draw(st.lists(st.integers(0, members - 1), min_size=1, unique=True))
    order = draw(st.lists(st.sampled_from(candidates), min_size=1, max_size=90))
    probes = draw(st.lists(st.integers(0, members - 1), max_size=2))
    begin = len(probes) + draw(st.integers(0, len(order) - 1))
    return Plan(
        (*probes, *order), begin, probes=len(probes), light=draw(st.booleans()),
        ranking=tuple(draw(st.permutations(candidates))),
    )  # fmt: skip


@given(plans(), st.integers(0, 91), st.integers(1, 16))
def test_members_are_distinct_candidates_and_the_first_is_the_plans(plan: Plan, at: int, answers: int) -> None:
    at %= len(plan.order)
    candidates = frozenset(plan.ranking)
    found = list_at(plan, at, candidates, answers)
    assert found[0] == plan.order[at]
    assert len(set(found)) == len(found)
    assert candidates.issuperset(found[1:])
    assert len(found) == min(answers, len(candidates | {found[0]}))


# The cursor


@pytest.mark.parametrize("plane", PLANES)
@given(st.lists(plans(), min_size=1, max_size=3), st.lists(st.sampled_from(["next", "due"]), max_size=30))
def test_the_first_member_is_the_one_that_an_answer_of_one_member_would_name(
    plane: Plane, orders: list[Plan], steps: list[str]
) -> None:
    one, several = PlanCursor(8), cursor_on(plane, 8, 3)
    for plan in orders:
        for cursor in (one, several):
            cursor.set_plan(plan, plan.ranking)
        for step in steps:
            ahead = several.next_members
            number = several.next() if step == "next" else several.due
            assert several.members(number) == ahead
            assert ahead[0] == (one.next() if step == "next" else one.due)
            assert (number in several.usable) == (ahead[0] in plan.ranking)
        assert (several.totals(), several.last, several.taken) == (one.totals(), one.last, one.taken)


@needs(native=True)
@given(st.lists(plans(), min_size=1, max_size=3), st.integers(0, 100), st.integers(2, 16))
def test_both_planes_make_the_same_lists(orders: list[Plan], count: int, answers: int) -> None:
    python, native = cursor_on(PYTHON_PLANE, 8, answers), cursor_on(NativePlane(), 8, answers)
    for plan in orders:
        for cursor in (python, native):
            cursor.set_plan(plan, plan.ranking)
        numbers = [(python.next(), native.next()) for _ in range(count)]
        assert all(ours == theirs for ours, theirs in numbers)
    for ours, theirs in numbers:
        assert python.members(ours) == native.members(theirs)
        assert (ours in python.usable) == (theirs in native.usable)


@pytest.mark.parametrize("plane", PLANES)
def test_members_that_have_become_unusable_are_left_out(plane: Plane) -> None:
    cursor = cursor_on(plane, 4, 3)
    number = cursor.next()
    assert cursor.members(number) == (0, 1, 2)
    cursor.set_plan(Plan((3, 0, 2)))
    assert (cursor.members(number), number in cursor.usable) == ((0, 2), True)
    cursor.set_plan(Plan((3, 2)))
    assert (cursor.members(number), number in cursor.usable) == ((0, 2), False)


@pytest.mark.parametrize("plane", PLANES)
def test_the_newest_lists_are_remembered(plane: Plane) -> None:
    cursor = cursor_on(plane, 3, 2)
    numbers = [cursor.next() for _ in range(MAX_LISTS + 2)]
    assert [cursor.members(number) for number in numbers[:2]] == [(), ()]
    assert not any(number in cursor.usable for number in numbers[:2])
    assert cursor.members(numbers[2]) == (2, 0)
    assert cursor.members(numbers[-1]) == ((MAX_LISTS + 1) % 3, (MAX_LISTS + 2) % 3)
    assert cursor.members(numbers[-1] + 1) == ()
    assert not any(foreign in cursor.usable for foreign in (numbers[-1] + 1, 2**32 - 1))
    assert None not in cursor.usable


def test_numbers_begin_again_after_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_lists, "MAX_LISTS", 4)
    cursor = cursor_on(PYTHON_PLANE, 3, 2)
    for _ in range(4):
        cursor.next()
    cursor._count = 2**32 - 2
    numbers = [cursor.next() for _ in range(4)]
    assert numbers == [2**32 - 2, 2**32 - 1, 0, 1]
    assert [cursor.members(number) for number in numbers] == [(1, 2), (2, 0), (0, 1), (1, 2)]
    assert 2 not in cursor.usable


@pytest.mark.parametrize("plane", PLANES)
def test_a_cursor_goes_on_after_a_reload(plane: Plane) -> None:
    old, new = cursor_on(plane, 3, 2), cursor_on(plane, 2, 2)
    for _ in range(4):
        old.next()
    new.take_over(old, (1, None, 0))
    assert (new.totals(), new.last) == ([1, 2], 1)


@pytest.mark.parametrize(
    ("lengths", "answers", "longest"),
    [((), 2, 0), ((16,), 3, 16), ((16, 16, 16), 2, 16), ((16, 48, 32), 3, 80), ((0, 0, 16), 3, 16)],
)
def test_the_most_that_a_list_adds_to_a_response(lengths: tuple[int, ...], answers: int, longest: int) -> None:
    fragments = [(10, 10 + length, length // 16) for length in lengths]
    assert longest_addition(fragments, answers) == longest


@needs(native=True)
@pytest.mark.parametrize("fragment", [(0, 99, 1), (5, 4, 1)])
def test_the_native_part_rejects_fragments_outside_their_tail(fragment: tuple[int, int, int]) -> None:
    table: Any = NativePlane().native_table(PAYLOAD)
    keep: Callable[..., None] = table.keep
    with pytest.raises(ValueError, match="within its tail"):
        keep(b"question", table.add_cursor(0.0, 2), None, 0, [(bytes(10), b"a tail")], [fragment])

"""Tests of rankings: all candidates, best first, whatever the policy."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies import POLICIES
from lbdns.policies.member_columns import MemberView
from lbdns.policies.plan import Plan, PoolView, Selections
from lbdns.policies.ranking import ranking
from tests.policies.views import handed, member, view

SCORES = [member(score) for score in (50, 90, 10, 88, 60)]
LOADS = [member(load=load, capacity=capacity) for load, capacity in ((4, 1), (1, 1), (4, 8), (2, 1))]


def ranked(policy: str, pool: PoolView, previous: Selections | None = None) -> tuple[int, ...]:
    return ranking(pool, POLICIES[policy].rank(pool), previous)


@pytest.mark.parametrize(
    ("policy", "pool", "members"),
    [
        ("best_score", view(*SCORES), (1, 3, 4, 0, 2)),
        ("best", view(*SCORES, allowed=5), (1, 3, 4, 0, 2)),
        ("round_robin", view(*SCORES), (0, 1, 2, 3, 4)),
        ("best", view(*LOADS), (2, 1, 3, 0)),  # heavy traffic: by load relative to capacity
        ("least_charged", view(*LOADS), (2, 1, 3, 0)),
        ("two_choices", view(*LOADS), (2, 1, 3, 0)),
        ("weighted", view(*LOADS), (2, 0, 1, 3)),
        ("weighted", view(member(capacity=4, ramp=0.2), member(capacity=1)), (1, 0)),
        ("least_charged", view(member(charge=3), member(load=2)), (1, 0)),
        # Nearly the highest score: the fastest first, as the plan of best has it
        ("best", view(member(90), member(88, capacity=2), member(80), allowed=5), (1, 0, 2)),
        ("best_score", view(member(90), member(88, capacity=2), member(80)), (0, 1, 2)),
        # Members in alarm, and then overdue ones, come last; unusable ones do not occur
        ("best_score", view(member(90, overdue=True), member(80, alarmed=True), member(70)), (2, 1, 0)),
        ("best_score", view(member(90, usable=False), member(80), member(70)), (1, 2)),
        ("weighted", view(member(usable=False)), ()),
    ],
)
def test_the_candidates_best_first(policy: str, pool: PoolView, members: tuple[int, ...]) -> None:
    assert ranked(policy, pool) == members


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_members_take_turns(policy: str) -> None:
    pool = view(*[member()] * 3)
    assert ranked(policy, pool) == (0, 1, 2)
    assert ranked(policy, pool, handed(Plan((0, 1, 2)), 2)) == (2, 0, 1)


MEMBERS = st.builds(
    member, st.integers(0, 100), st.floats(0, 50), st.floats(0.1, 50), st.booleans(), st.booleans(),
    alarmed=st.booleans(), ramp=st.floats(0.1, 1), charge=st.floats(-5, 50),
)  # fmt: skip


@given(st.sampled_from(sorted(POLICIES)), st.lists(MEMBERS, min_size=1, max_size=6), st.integers(0, 5))
def test_a_ranking_has_every_candidate_once_and_the_plan_has_no_other(
    policy: str, members: list[MemberView], allowed: int
) -> None:
    pool = view(*members, allowed=allowed)
    found = ranked(policy, pool)
    assert sorted(found) == pool.candidates
    if found:
        assert set(POLICIES[policy].function(pool, None, Random(1)).order) <= set(found)

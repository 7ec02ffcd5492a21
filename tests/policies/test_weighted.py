from __future__ import annotations

from collections import Counter

import pytest

from lbdns.policies.weighted import weighted
from tests.policies.views import member, run, view


@pytest.mark.parametrize("each", [1, 7, 100])
def test_shares_follow_capacity_at_any_plan_frequency(each: int) -> None:
    pool = view(member(capacity=1.0), member(capacity=2.0), member(capacity=5.0))
    shares = Counter(run(weighted, pool, each, 800 // each))
    total = shares.total()
    for i, capacity in enumerate((1, 2, 5)):
        assert shares[i] == pytest.approx(total * capacity / 8, abs=2)


def test_selections_are_smooth() -> None:
    order = run(weighted, view(member(capacity=1.0), member(capacity=1.0), member(capacity=2.0)), 64, 1)
    for start in range(0, 60, 4):
        window = Counter(order[start : start + 8])
        assert 3 <= window[2] <= 5


def test_an_overdue_member_gets_nothing_while_most_report() -> None:
    pool = view(member(), member(overdue=True), member())
    assert set(run(weighted, pool, 50, 2)) == {0, 2}


def test_with_half_overdue_all_members_are_used() -> None:
    pool = view(member(), member(overdue=True))
    assert set(run(weighted, pool, 50, 2)) == {0, 1}

from __future__ import annotations

from collections import Counter

import pytest

from lbdns.policies.weighted import weighted
from tests.policies.views import member, run, view


@pytest.mark.parametrize("each", [1, 7, 100])
def test_shares_follow_capacity_whatever_the_rhythm_of_plans(each: int) -> None:
    pool = view(member(capacity=1.0), member(capacity=2.0), member(capacity=5.0))
    shares = Counter(run(weighted, pool, each, 800 // each))
    total = shares.total()
    for i, capacity in enumerate((1, 2, 5)):
        assert shares[i] == pytest.approx(total * capacity / 8, abs=2)


def test_hand_outs_are_smooth() -> None:
    order = run(weighted, view(member(capacity=1.0), member(capacity=1.0), member(capacity=2.0)), 64, 1)
    for start in range(0, 60, 4):
        window = Counter(order[start : start + 8])
        assert 3 <= window[2] <= 5


def test_a_suspect_gets_nothing_while_most_are_heard() -> None:
    pool = view(member(), member(suspect=True), member())
    assert set(run(weighted, pool, 50, 2)) == {0, 2}


def test_when_half_are_suspect_the_reports_are_to_blame() -> None:
    pool = view(member(), member(suspect=True))
    assert set(run(weighted, pool, 50, 2)) == {0, 1}

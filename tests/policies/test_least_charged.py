from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.least_charged import least_charged
from tests.policies.views import hand_out, member, run, view


def test_the_emptiest_member_comes_first_and_is_charged() -> None:
    pool = view(member(load=2.0), member(load=0.0), member(load=1.0))
    assert hand_out(least_charged(pool, None, Random(1)), 6) == [1, 2, 1, 0, 2, 1]


def test_selections_since_the_report_count() -> None:
    pool = view(member(load=0.0, charge=5.0), member(load=3.0))
    assert hand_out(least_charged(pool, None, Random(1)), 2) == [1, 1]


def test_answers_are_multiplied_by_the_number_of_servers() -> None:
    pool = replace(view(member(load=0.0), member(load=3.5)), multiplier=4.0)
    assert hand_out(least_charged(pool, None, Random(1)), 4) == [0, 1, 0, 1]


def test_equal_members_take_turns_across_plans() -> None:
    pool = view(member(), member(), member())
    assert run(least_charged, pool, 2, 6) == [0, 1, 2] * 4


def test_capacity_decides_shares() -> None:
    shares = Counter(hand_out(least_charged(view(member(capacity=3.0), member(capacity=1.0)), None, Random(1)), 400))
    assert shares[0] == pytest.approx(300, abs=2)


def test_slow_start_reduces_selections() -> None:
    pool = view(member(capacity=1.0, ramp=0.25), member(capacity=1.0))
    assert Counter(hand_out(least_charged(pool, None, Random(1)), 500))[0] == pytest.approx(100, abs=2)


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 100), st.floats(0.01, 100)), min_size=1, max_size=20),
    st.floats(0.1, 5000),
)
def test_only_usable_members_are_selected(members: list[tuple[bool, float, float]], rate: float) -> None:
    pool = view(*(member(usable=u, load=n, capacity=c) for u, n, c in members), rate=rate)
    if pool.candidates:
        order = least_charged(pool, None, Random(1)).order
        assert order
        assert set(order) <= set(pool.candidates)

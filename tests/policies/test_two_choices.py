from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.two_choices import two_choices
from tests.policies.views import hand_out, member, view


def test_the_fullest_member_never_wins() -> None:
    pool = view(member(load=1000.0), member(), member(), rate=100.0)
    assert 0 not in two_choices(pool, None, Random(1)).order


def test_the_draw_is_random() -> None:
    pool = view(*(member() for _ in range(8)))
    one, other, again = (two_choices(pool, None, Random(seed)).order for seed in (1, 2, 1))
    assert one == again
    assert one != other


def test_two_members_are_always_both_drawn() -> None:
    shares = Counter(hand_out(two_choices(view(member(capacity=3.0), member()), None, Random(1)), 400))
    assert shares[0] == pytest.approx(300, abs=3)


def test_equal_members_get_equal_shares() -> None:
    shares = Counter(hand_out(two_choices(view(*(member() for _ in range(10))), None, Random(1)), 1000))
    assert all(shares[i] == pytest.approx(100, abs=15) for i in range(10))


def test_a_single_member() -> None:
    assert hand_out(two_choices(view(member(usable=False), member()), None, Random(1)), 3) == [1, 1, 1]


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100)), min_size=1, max_size=20), st.integers())
def test_only_usable_members_are_selected(members: list[tuple[bool, float]], seed: int) -> None:
    pool = view(*(member(usable=u, load=n) for u, n in members))
    if pool.candidates:
        order = two_choices(pool, None, Random(seed)).order
        assert order
        assert set(order) <= set(pool.candidates)

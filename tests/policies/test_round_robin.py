from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.round_robin import round_robin
from tests.policies.views import member, run, view


@given(st.lists(st.booleans(), min_size=1, max_size=8).filter(any), st.integers(0, 11), st.integers(1, 20))
def test_rotation_is_strict_across_plans(usable: list[bool], each: int, times: int) -> None:
    pool = view(*(member(usable=flag) for flag in usable))
    members = [i for i, flag in enumerate(usable) if flag]
    order = run(round_robin, pool, each, times)
    assert order == [members[i % len(members)] for i in range(len(order))]

"""Tests of the members of a view by column: each item is the member that it was made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.member_columns import MemberColumns, MemberView, gathered

MEMBERS = st.builds(
    MemberView, st.booleans(), st.booleans(), st.integers(0, 100), st.floats(0, 50), st.floats(0.1, 50),
    st.floats(0.1, 64), st.floats(0.1, 50), st.floats(-5, 50), st.floats(0.01, 1), st.booleans(),
    st.floats(0.1, 1), st.just(0.0) | st.floats(0.5, 50),
    st.sampled_from([0.0, 0.03]),
)  # fmt: skip


@given(st.lists(MEMBERS, max_size=6))
def test_the_items_are_the_members(members: list[MemberView]) -> None:
    columns = MemberColumns.of(members)
    assert list(columns) == members
    assert columns[1:] == members[1:]
    assert [columns[at - len(members)] for at in range(len(members))] == members
    usable = [i for i, member in enumerate(members) if member.usable]
    assert columns.candidates == usable
    assert columns.usable_capacities == [member.capacity * member.available_share * member.ramp for member in members]
    assert columns.weighed(usable, columns.capacities) == [members[i].capacity * members[i].ramp for i in usable]


def test_there_is_no_item_beyond_the_last_member() -> None:
    columns = MemberColumns.of([MemberView(True, False, 50, 0.0, 1.0)])
    with pytest.raises(IndexError):
        columns[1]


def test_the_items_of_some_members() -> None:
    assert gathered((1.0, 2.0, 3.0), (0, 2)) == [1.0, 3.0]
    assert gathered((1.0, 2.0, 3.0), (0, 1, 2)) == [1.0, 2.0, 3.0]

"""Tests of the retransmission cache: repeated queries are recognised for a few seconds, and memory use is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.member_selection import RETRANSMISSION_SLOTS, RETRANSMISSION_WINDOW, RetransmissionCache


@pytest.mark.parametrize("mark", [1, -1, 2**63 - 1, -(2**63), RETRANSMISSION_SLOTS, 12345678901])
def test_the_member_is_known_for_a_while(mark: int) -> None:
    recent = RetransmissionCache()
    assert recent.member(mark, 50.0) is None
    recent.note(mark, 7, 50.0)
    assert recent.member(mark, 50.0) == 7
    assert recent.member(mark, 50.0 + RETRANSMISSION_WINDOW - 0.001) == 7
    assert recent.member(mark, 50.0 + RETRANSMISSION_WINDOW) is None


def test_address_port_and_every_byte_tell_queries_apart() -> None:
    marks = {
        RetransmissionCache.mark(host, port, query)
        for host in ("192.0.2.1", "192.0.2.2")
        for port in (1024, 1025)
        for query in (b"a query", b"A query", b"a query ")
    }
    assert len(marks) == 12
    assert RetransmissionCache.mark("192.0.2.1", 1024, b"a query") in marks


def test_seconds_count_from_the_first_answer() -> None:
    # Who repeats a query for ever is not given the same member for ever
    recent = RetransmissionCache()
    recent.note(5, 1, 0.0)
    assert [recent.member(5, now) for now in (2.0, 4.0, 5.9, 6.1)] == [1, 1, 1, None]


def test_another_query_on_the_same_slot_takes_it() -> None:
    recent = RetransmissionCache()
    recent.note(5, 1, 10.0)
    assert recent.member(5 + RETRANSMISSION_SLOTS, 10.0) is None
    recent.note(5 + RETRANSMISSION_SLOTS, 2, 10.0)
    assert recent.member(5 + RETRANSMISSION_SLOTS, 10.0) == 2
    assert recent.member(5, 10.0) is None


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**32 - 1)), max_size=40))
def test_never_a_member_that_was_not_noted_for_this_query(noted: list[tuple[int, int]]) -> None:
    recent = RetransmissionCache()
    latest = {}
    for mark, member in noted:
        recent.note(mark, member, 1.0)
        latest[mark] = member
    found = {mark: recent.member(mark, 2.0) for mark in latest}
    assert all(found[mark] in (latest[mark], None) for mark in latest)
    assert not noted or found[noted[-1][0]] == noted[-1][1], "the last is always known"


def test_however_many_its_size_is_the_same() -> None:
    recent = RetransmissionCache()
    sizes = {tuple(len(a) for a in (recent.marks, recent.members, recent.times))}
    for mark in range(0, 3 * RETRANSMISSION_SLOTS, 11):
        recent.note(mark, 1, 1.0)
    sizes.add(tuple(len(a) for a in (recent.marks, recent.members, recent.times)))
    assert sizes == {(RETRANSMISSION_SLOTS, RETRANSMISSION_SLOTS, RETRANSMISSION_SLOTS)}

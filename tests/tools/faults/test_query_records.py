"""Tests of what query records add up to."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.faults.query_records import NO_MEMBER, Ban, QueryRecord, figures, shares, unpack


def record(sent: float, waited: float = 0.01, tries: int = 1, member: int = 0, is_wrong: bool = False) -> QueryRecord:
    return QueryRecord(sent, waited, tries, member, is_wrong)


RECORDS = st.builds(
    QueryRecord,
    st.floats(0, 1e6),
    st.floats(0, 10) | st.just(math.inf),
    st.sampled_from((1, 2)),
    st.integers(0, NO_MEMBER),
    st.booleans(),
)


@given(st.lists(RECORDS))
def test_records_survive_packing(records: list[QueryRecord]) -> None:
    assert unpack(b"".join(one.packed() for one in records)) == records


def test_lost_after_retry_counts_only_what_no_try_answered() -> None:
    found = figures([record(1.0), record(2.0, 1.2, tries=2), record(3.0, math.inf, tries=2, member=NO_MEMBER)])
    assert (found.sent, found.lost, found.lost_after_retry, found.wrong) == (3, 2, 1, 0)
    assert found.last_bad == 3.0


def test_a_banned_member_is_wrong_only_during_the_ban() -> None:
    records = [record(at, member=1) for at in (1.0, 2.0, 3.0)] + [record(2.0, member=0)]
    found = figures(records, [Ban(1, 2.0, 3.0)])
    assert (found.wrong, found.last_bad) == (1, 2.0)


def test_wrong_answers_count_once() -> None:
    assert figures([record(1.0, member=1, is_wrong=True)], [Ban(1, 0.0)]).wrong == 1


def test_shares_ignore_queries_without_a_member() -> None:
    records = [record(1.0, member=0)] * 3 + [record(1.0, member=1), record(1.0, member=NO_MEMBER)]
    assert shares(records, 2) == [0.75, 0.25]
    assert shares([], 2) == [0.0, 0.0]

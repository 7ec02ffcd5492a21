"""Light traffic: how many more answers may be sent, and how crowds of clients behind few answers are recognised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.light_traffic import answers_allowed, brings_crowds


@pytest.mark.parametrize(
    ("answered", "interval", "servers", "more"),
    [(0, 1.0, 1, 20 + 2), (20, 1.0, 1, 2), (21, 1.0, 1, 0), (0, 5.0, 1, 4 + 2), (0, 1.0, 4, 5 + 1), (6, 1.0, 4, 0)],
)
def test_answers_allowed(answered: int, interval: float, servers: int, more: int) -> None:
    assert answers_allowed(answered, 10.0, interval, servers) == more


#: Two answers a second, and what three members do that carry 100, 200 and 300 requests/s
CAPACITY = (100.0, 200.0, 300.0)


@pytest.mark.parametrize(
    ("requests", "handed", "is_crowd"),
    [
        ((0.0, 0.0, 200.0), (0, 0, 9), True),
        ((60.0, 60.0, 60.0), (5, 4, 5), True),
        ((0.0, 40.0, 160.0), (1, 2, 3), True),
        ((200.0, 0.0, 0.0), (0, 0, 9), False),  # all load on one member, while the answers name another
        ((200.0, 0.0, 0.0), (1, 0, 9), False),  # although one answer named the loaded member
        ((60.0, 60.0, 60.0), (0, 0, 9), False),  # from elsewhere, to all
        ((0.0, 0.0, 50.0), (0, 0, 9), False),  # 2 * 25 is no more than half of what the weakest does in a second
        ((0.0, 0.0, 0.0), (0, 0, 9), False),
        ((0.0, 0.0, 200.0), (0, 0, 0), False),  # no member was selected yet
    ],
)
def test_a_crowd_follows_the_answers(requests: tuple[float, ...], handed: tuple[float, ...], is_crowd: bool) -> None:
    assert brings_crowds(requests, requests, handed, CAPACITY, 2.0, 1.0) is is_crowd


def crowd_at_the_last(requests: float, capacity: tuple[float, ...], answers: float, interval: float) -> bool:
    sent = (0.0, 0.0, requests)
    return brings_crowds(sent, sent, (0, 0, 9), capacity, answers, interval)


def test_a_crowd_that_has_gone_does_not_count() -> None:
    assert brings_crowds((0.0, 0.0, 200.0), (0.0, 100.0, 1.0), (0, 0, 9), CAPACITY, 2.0, 1.0)
    assert not brings_crowds((0.0, 0.0, 200.0), (0.0, 0.0, 1.0), (0, 0, 9), CAPACITY, 2.0, 1.0)


def test_one_clients_pages_are_not_a_crowd_even_for_weak_members() -> None:
    weak = (1.0, 1.0, 1.0)
    assert not crowd_at_the_last(20.0, weak, 2.0, 1.0)
    assert crowd_at_the_last(21.0, weak, 2.0, 1.0)


def test_long_report_intervals_allow_more_requests() -> None:
    assert crowd_at_the_last(200.0, CAPACITY, 2.0, 3.9)
    assert not crowd_at_the_last(200.0, CAPACITY, 2.0, 4.0)


@pytest.mark.parametrize("requests", [0.0, 30.0, 70.0, 90.0, 120.0, 1000.0])
def test_no_member_changes_the_rule_by_claiming_a_tiny_capacity(requests: float) -> None:
    """A crowd is what a member with a quarter of the median capacity could not carry at least."""
    claimed = [crowd_at_the_last(requests, (tiny, 200.0, 300.0), 2.0, 1.0) for tiny in (1e-9, 0.1, 10.0, 50.0)]
    assert len(set(claimed)) == 1
    assert claimed[0] is (requests > 25.0)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e4), st.floats(0, 1e4), st.integers(0, 10**40), st.floats(0.01, 1e4)),
        min_size=1,
        max_size=9,
    ),
    st.floats(0.01, 1e3),
    st.floats(0.1, 60),
)
def test_any_values(members: list[tuple[float, float, int, float]], answers: float, interval: float) -> None:
    requests, newest, handed, capacity = zip(*members, strict=True)
    is_crowd = brings_crowds(requests, newest, handed, capacity, answers, interval)
    assert brings_crowds(requests, newest, [4 * count for count in handed], capacity, answers, interval) is is_crowd
    assert not (is_crowd and min(sum(requests), sum(newest)) <= 10 * answers)
    elsewhere = [0.0 if count else 1e4 for count in handed]
    assert not brings_crowds(elsewhere, elsewhere, handed, capacity, answers, interval), "nothing followed"

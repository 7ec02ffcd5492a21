"""Whether queries are few: how many more count so, and when a few bring a crowd."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.few import allowed, carry_a_crowd


@pytest.mark.parametrize(
    ("answered", "interval", "servers", "more"),
    [
        (0, 1.0, 1, 20 + 2),
        (20, 1.0, 1, 2),
        (21, 1.0, 1, 0),
        (0, 5.0, 1, 4 + 2),
        (0, 1.0, 4, 5 + 1),
        (6, 1.0, 4, 0),
    ],
)
def test_so_many_more_are_few(answered: int, interval: float, servers: int, more: int) -> None:
    assert allowed(answered, 10.0, interval, servers) == more


#: Two answers a second, and what three members do that carry 100, 200 and 300 requests/s
CAPACITY = (100.0, 200.0, 300.0)


@pytest.mark.parametrize(
    ("requests", "handed", "is_crowd"),
    [
        ((0.0, 0.0, 200.0), (0, 0, 9), True),
        ((60.0, 60.0, 60.0), (5, 4, 5), True),
        ((0.0, 40.0, 160.0), (1, 2, 3), True),
        ((200.0, 0.0, 0.0), (0, 0, 9), False),  # the load of one, and somebody who is sent to another
        ((200.0, 0.0, 0.0), (1, 0, 9), False),  # although that one was told too, once
        ((60.0, 60.0, 60.0), (0, 0, 9), False),  # from elsewhere, to all
        ((0.0, 0.0, 50.0), (0, 0, 9), False),  # 2 * 25 is no more than half of what the weakest does in a second
        ((0.0, 0.0, 0.0), (0, 0, 9), False),
        ((0.0, 0.0, 200.0), (0, 0, 0), False),  # nobody was handed out yet
    ],
)
def test_a_crowd_is_where_the_few_answers_led_to(
    requests: tuple[float, ...], handed: tuple[float, ...], is_crowd: bool
) -> None:
    assert carry_a_crowd(requests, requests, handed, CAPACITY, 2.0, 1.0) is is_crowd


def crowd_at_the_last(requests: float, capacity: tuple[float, ...], answers: float, interval: float) -> bool:
    sent = (0.0, 0.0, requests)
    return carry_a_crowd(sent, sent, (0, 0, 9), capacity, answers, interval)


def test_a_crowd_that_has_gone_is_none() -> None:
    assert carry_a_crowd((0.0, 0.0, 200.0), (0.0, 100.0, 1.0), (0, 0, 9), CAPACITY, 2.0, 1.0)
    assert not carry_a_crowd((0.0, 0.0, 200.0), (0.0, 0.0, 1.0), (0, 0, 9), CAPACITY, 2.0, 1.0)


def test_pages_of_one_client_are_no_crowd_even_for_weak_members() -> None:
    weak = (1.0, 1.0, 1.0)
    assert not crowd_at_the_last(20.0, weak, 2.0, 1.0)
    assert crowd_at_the_last(21.0, weak, 2.0, 1.0)


def test_who_reports_seldom_is_sent_as_much_as_it_does_meanwhile() -> None:
    assert crowd_at_the_last(200.0, CAPACITY, 2.0, 3.9)
    assert not crowd_at_the_last(200.0, CAPACITY, 2.0, 4.0)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e4), st.floats(0, 1e4), st.integers(0, 10**40), st.floats(0.01, 1e4)),
        min_size=1,
        max_size=9,
    ),
    st.floats(0.01, 1e3),
    st.floats(0.1, 60),
)
def test_any_figures(members: list[tuple[float, float, int, float]], answers: float, interval: float) -> None:
    requests, newest, handed, capacity = zip(*members, strict=True)
    is_crowd = carry_a_crowd(requests, newest, handed, capacity, answers, interval)
    assert carry_a_crowd(requests, newest, [4 * count for count in handed], capacity, answers, interval) is is_crowd
    assert not (is_crowd and min(sum(requests), sum(newest)) <= 10 * answers)
    elsewhere = [0.0 if count else 1e4 for count in handed]
    assert not carry_a_crowd(elsewhere, elsewhere, handed, capacity, answers, interval), "nothing followed"

"""Tests of answer counters: sums, separate counts, and conversion to plain data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from lbdns.counting.answer_counters import NO_COUNTS, AnswerCounters, count_answers, read_counters
from lbdns.counting.response_times import BOUNDS, ResponseTimes
from tests.answering.asking import ask, make_responder
from tests.answering.farms import hobbit

A = ("hobbit", 1, "udp", 0)
NX = ("hobbit", 1, "tcp", 3)


def figures(asked: int, slow: int = 0, bilbo: int = 0, unsent: int = 0) -> AnswerCounters:
    durations = [0] * (len(BOUNDS) + 1)
    durations[2], durations[-1] = asked, slow
    answers = {("web", "best", "bilbo.hobbit"): bilbo} if bilbo else {}
    return AnswerCounters({A: asked} if asked else {}, tuple(durations), 0.5 * asked, answers, {"unsent": unsent})


def test_they_add_up() -> None:
    both = figures(3, 1, 2, 5) + AnswerCounters({NX: 7}, seconds=1.0, answers={("web", "weighted", "bilbo.hobbit"): 1})
    assert both.asked == {A: 3, NX: 7}
    assert both.queries == 4
    assert both.seconds == 2.5
    assert both.answers == {("web", "best", "bilbo.hobbit"): 2, ("web", "weighted", "bilbo.hobbit"): 1}
    assert both.named == {"unsent": 5}
    assert both.by_pool() == {"web": {"bilbo.hobbit": 3}}
    assert NO_COUNTS + NO_COUNTS == NO_COUNTS
    assert sum([figures(2)], figures(1)) == figures(3)


def of_now(looks: int, tcp_open: int) -> AnswerCounters:
    return AnswerCounters(
        levels={"tcp_open": tcp_open},
        lag={("main", 200): looks},
        lag_us={"main": 7 * looks},
        fail_open_ms={"web": looks},
    )


def test_levels_add_up_over_processes_and_end_with_them() -> None:
    both = of_now(3, 2) + of_now(4, 5)
    assert both == of_now(7, 7)
    assert both.ended() == replace(both, levels={})
    assert NO_COUNTS.ended() is NO_COUNTS
    assert of_now(3, 9).beyond(of_now(1, 2)) == replace(of_now(2, 0), levels={})


def test_what_one_counts_more_than_another() -> None:
    more = (figures(3, 1, 2) + AnswerCounters({NX: 7})).beyond(figures(5, 1, 1))
    assert more.asked == {NX: 7}
    assert more.queries == 0
    assert more.answers == {("web", "best", "bilbo.hobbit"): 1}
    assert figures(3, unsent=1).beyond(NO_COUNTS) == figures(3, unsent=1)


def test_adding_what_is_gone_never_lets_a_count_fall() -> None:
    before, after = figures(10, 2, 4, 1), figures(3, 2, 0, 0)
    again = before.beyond(after) + after
    assert again == before


def test_they_travel_as_plain_data() -> None:
    sent = figures(3, 1, 2, 5) + AnswerCounters({NX: 7}) + of_now(3, 2)
    assert read_counters(msgpack.unpackb(msgpack.packb(sent.state()))) == sent


def test_a_server_that_knows_less_can_be_taken_over_from() -> None:
    new = "levels", "lag", "lag_us", "fail_open_ms"
    state = {key: value for key, value in (figures(3) + of_now(1, 2)).state().items() if key not in new}
    assert read_counters(state) == figures(3)


def test_other_buckets_keep_the_sum() -> None:
    state = figures(3).state()
    state["durations"] = [4, 5]
    assert read_counters(state).queries == 9


@pytest.mark.parametrize(
    "change",
    [
        {"asked": [["hobbit", 1, "udp", 0, -1]]},
        {"asked": [["hobbit", 1]]},
        {"durations": [1.5]},
        {"seconds": "long"},
        {"answers": 5},
        {"named": {"unsent": None}},
        {"levels": {"tcp_open": -1}},
        {"lag": [["main", 0.5, 1]]},
        {"lag": [["main", 1]]},
        {"lag_us": 5},
        {"fail_open_ms": {"web": 0.5}},
    ],
)
def test_what_is_no_state_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not valid counters"):
        read_counters({**figures(1).state(), **change})


@pytest.mark.parametrize("state", [None, [], {}, "figures"])
def test_nor_is_this(state: object) -> None:
    with pytest.raises(ValueError, match="not valid counters"):
        read_counters(state)


def test_of_one_process() -> None:
    responder = make_responder(hobbit())
    for _ in range(4):
        ask(responder, "round.robin.hobbit")
    durations = ResponseTimes()
    durations.add(4, 4e-5)
    found = count_answers(responder.table, durations, {"unsent": 1})
    assert found.asked == {A: 4}
    assert found.queries == 4
    assert found.answers["web", "round_robin", "bilbo.hobbit"] == 2
    assert found.answers["web", "best", "bilbo.hobbit"] == 0
    assert found.named == {"unsent": 1}

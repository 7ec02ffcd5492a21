"""Tests of worker counters: each worker soon learns the others' totals, and sums never decrease when workers end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.counting.answer_counters import AnswerCounters
from lbdns.server.workers.worker_counters import SHARING, AnswerSharing, WorkerCounters, read_answers, write_answers

BEST = ("web", "best")
Answers = Mapping[tuple[str, str], int]


class Clock:
    """An event loop's clock and timers, advanced by the test."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Any:
        timer = (when, call)
        self.timers.append(timer)
        return Cancel(self.timers, timer)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer[0] <= end]:
            timer = min(due, key=lambda timer: timer[0])
            self.timers.remove(timer)
            self.now = max(self.now, timer[0])
            timer[1]()
        self.now = max(self.now, end)


class Cancel:
    def __init__(self, timers: list[Any], timer: object) -> None:
        self._timers, self._timer = timers, timer

    def cancel(self) -> None:
        if self._timer in self._timers:
            self._timers.remove(self._timer)


class Shared:
    """Several workers, their answers, and the totals sent to them. Sending takes ``cost`` seconds."""

    def __init__(self, workers: int, cost: float = 0.0) -> None:
        self.clock = Clock()
        self.sharing = AnswerSharing(self.clock, self._tell)  # type: ignore[arg-type]
        self.cost = cost
        self.behind: set[int] = set()
        self.tellings = 0
        self.knows: dict[int, dict[tuple[str, str], int]] = {}
        for number in range(workers):
            self.begin(number)

    def begin(self, number: int) -> None:
        self.knows[number] = dict(self.sharing.begin(number))

    def _tell(self, number: int, answers: Answers) -> bool:
        self.clock.now += self.cost
        if number in self.behind:
            return False
        self.tellings += 1
        self.knows[number].update(answers)
        return True


def test_each_hears_of_the_others_and_not_of_itself() -> None:
    shared = Shared(3)
    shared.sharing.take(0, {BEST: 5, ("web", "weighted"): 1})
    shared.sharing.take(1, {BEST: 7})
    shared.clock.run(SHARING.shortest)
    assert shared.knows == {0: {BEST: 7}, 1: {BEST: 5, ("web", "weighted"): 1}, 2: {BEST: 12, ("web", "weighted"): 1}}


def test_within_a_second_however_often_figures_come_and_not_at_each() -> None:
    shared = Shared(2)
    for count in range(1, 1001):
        shared.sharing.take(0, {BEST: count})
        shared.clock.run(0.01)
        heard = shared.knows[1].get(BEST, 0)
        assert count - heard <= SHARING.shortest / 0.01
    assert shared.tellings <= 10 / SHARING.shortest + 1


def test_nothing_is_told_when_nothing_was_answered() -> None:
    shared = Shared(2)
    for _ in range(10):
        shared.sharing.take(0, {BEST: 5})
        shared.clock.run(1.0)
    assert shared.tellings == 1
    assert not shared.clock.timers


def test_who_is_behind_hears_it_later_all_at_once() -> None:
    shared = Shared(2)
    shared.behind.add(1)
    shared.sharing.take(0, {BEST: 5})
    shared.clock.run(1.0)
    shared.sharing.take(0, {BEST: 6})
    shared.behind.clear()
    shared.clock.run(1.0)
    assert shared.knows[1] == {BEST: 6}
    assert shared.tellings == 1


def test_what_the_dead_have_answered_stays_in_the_sum() -> None:
    shared = Shared(3)
    shared.sharing.take(0, {BEST: 5})
    shared.sharing.take(1, {BEST: 100})
    shared.clock.run(1.0)
    shared.sharing.lose(1)
    shared.sharing.take(1, {BEST: 200})  # of nobody
    shared.clock.run(1.0)
    assert shared.knows[2] == {BEST: 105}
    shared.begin(1)
    assert shared.knows[1] == {BEST: 105}, "the new one counts from there"
    shared.sharing.take(1, {BEST: 3})
    shared.clock.run(1.0)
    assert shared.knows[0] == {BEST: 103}
    assert shared.knows[2] == {BEST: 108}
    assert shared.knows[1] == {BEST: 105}


def test_telling_that_takes_long_is_done_seldom() -> None:
    shared = Shared(10, cost=0.01)
    began = shared.clock.now
    count = 0
    while shared.clock.now < began + 60:
        count += 1
        shared.sharing.take(0, {BEST: count})
        shared.clock.run(0.1)
    assert shared.tellings * shared.cost < 0.03 * 60, "about 2 % of the time"


def test_after_the_end_nothing_is_told() -> None:
    shared = Shared(2)
    shared.sharing.take(0, {BEST: 5})
    shared.sharing.stop()
    shared.sharing.take(0, {BEST: 6})
    shared.clock.run(5.0)
    assert shared.tellings == 0


steps = st.lists(st.tuples(st.sampled_from(["answer", "die", "wait", "hang"]), st.integers(0, 2), st.integers(1, 9)))


@given(steps)
def test_in_the_end_each_knows_what_all_others_have_answered(history: list[tuple[str, int, int]]) -> None:
    """A new worker also learns of the answers that others gave before it started."""
    shared = Shared(3)
    answered, everything = [0, 0, 0], 0
    for what, number, count in history:
        if what == "answer":
            answered[number] += count
            everything += count
            shared.sharing.take(number, {BEST: answered[number]})
        elif what == "die":
            shared.sharing.lose(number)
            shared.begin(number)
            answered[number] = 0
            shared.behind.discard(number)
        elif what == "hang":
            shared.behind.symmetric_difference_update({number})
        else:
            shared.clock.run(count / 10)
    shared.behind.clear()
    shared.clock.run(2.0)
    for number in range(3):
        assert shared.knows[number].get(BEST, 0) == everything - answered[number]


async def test_it_works_on_the_clock_of_an_event_loop() -> None:
    received = asyncio.Event()
    shared = AnswerSharing(asyncio.get_running_loop(), lambda number, answers: received.set() or True)  # type: ignore[func-returns-value]
    shared.begin(0)
    shared.begin(1)
    shared.take(0, {BEST: 1})
    await asyncio.wait_for(received.wait(), 60)
    shared.stop()
    assert SHARING.shortest < 0.5, "twice this, the workers' own pause and ours, stays below a second"


def test_answers_travel_as_plain_data() -> None:
    answers = {BEST: 5, ("low", "weighted"): 0}
    assert read_answers(msgpack.unpackb(msgpack.packb(write_answers(answers)))) == answers


@pytest.mark.parametrize("state", [None, 5, [["web", "best"]], [["web", "best", -1]], [["web", "best", 1.5]], ["web"]])
def test_what_are_no_answers_is_refused(state: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        read_answers(state)


def counted(answers: int, tcp_open: int = 0) -> AnswerCounters:
    key = ("web", "best", "frodo.hobbit")
    return AnswerCounters(answers={key: answers}, named={"unsent": answers}, levels={"tcp_open": tcp_open})


def test_workers_add_up() -> None:
    counters = WorkerCounters()
    assert counters.sum() == AnswerCounters()
    counters.take(0, counted(3, 2))
    counters.take(1, counted(4, 1))
    assert counters.sum() == counted(7, 3)
    counters.take(0, counted(5, 2))
    assert counters.sum() == counted(9, 3)
    assert counters.answers("web") == {"frodo.hobbit": 9}
    assert counters.answers("mail") == {}


def test_counters_outlive_their_process_and_levels_do_not() -> None:
    counters = WorkerCounters()
    counters.take(0, counted(3, 2))
    counters.end(0)
    counters.end(1)  # it never reported
    assert (counters.sum().answers, counters.sum().levels) == (counted(3).answers, {})
    counters.take(0, counted(1, 1))  # the next process begins at zero
    assert counters.answers("web") == {"frodo.hobbit": 4}
    assert counters.sum().levels == {"tcp_open": 1}

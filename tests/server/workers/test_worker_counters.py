"""The counters of a worker pool: sums over workers, which never fall when a process ends."""

from __future__ import annotations

from lbdns.counting.answer_counters import AnswerCounters
from lbdns.server.workers.worker_counters import WorkerCounters


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

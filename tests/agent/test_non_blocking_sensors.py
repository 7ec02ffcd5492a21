"""Checks that a reading that waits does not delay any other reading in the same thread."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from lbdns_agent.non_blocking_sensors import READABLE, DescriptorWait, ReadingSteps, SensorTasks
from tests.agent.waiting import PATIENCE, run_to_end, until


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def reading(fd: int) -> ReadingSteps[bytes]:
    """Wait until ``fd`` is readable, and then read from it."""
    yield DescriptorWait(fd, READABLE)
    return os.read(fd, 100)


def test_an_answer_ends_the_waiting(pipe: tuple[int, int]) -> None:
    tasks = SensorTasks()
    task = tasks.add(lambda: reading(pipe[0]), 2 * PATIENCE)
    os.write(pipe[1], b"hello")
    start = time.monotonic()
    tasks.start()
    tasks.settle(start + 2 * PATIENCE)
    assert time.monotonic() - start < PATIENCE
    answer = task.take(start)
    assert answer is not None
    assert answer.value == b"hello"
    assert start <= answer.at <= time.monotonic()
    assert task.take(start) is None, "an answer is taken once"


def test_a_reading_that_never_waits_is_over_at_once() -> None:
    def at_once() -> ReadingSteps[int]:
        return 7
        yield

    tasks = SensorTasks()
    task = tasks.add(at_once, 1.0)
    tasks.start()
    assert not task.busy
    answer = task.take(0.0)
    assert answer is not None
    assert answer.value == 7


def test_the_late_one_is_waited_for_only_once(pipe: tuple[int, int]) -> None:
    tasks = SensorTasks()
    late = tasks.add(lambda: reading(pipe[0]), 9 * PATIENCE)
    tasks.start()
    start = time.monotonic()
    tasks.settle(start + 0.05)
    assert 0.05 <= time.monotonic() - start < PATIENCE
    assert late.busy
    assert late.take(0.0) is None
    tasks.start()
    start = time.monotonic()
    tasks.settle(start + 2 * PATIENCE)
    assert time.monotonic() - start < PATIENCE, "it was waited for once more"
    os.write(pipe[1], b"late")
    tasks.settle(start + 2 * PATIENCE)
    assert late.busy, "a late answer is met by who waits, not by who settles"
    until(lambda: tasks.wait(time.monotonic() + 0.01) or not late.busy)
    answer = late.take(start)
    assert answer is not None
    assert answer.value == b"late"
    tasks.start()
    os.write(pipe[1], b"again")
    tasks.settle(time.monotonic() + PATIENCE)
    answer = late.take(start)
    assert answer is not None, "after an answer it is waited for again"
    assert answer.value == b"again"


def test_an_old_answer_is_not_taken(pipe: tuple[int, int]) -> None:
    tasks = SensorTasks()
    task = tasks.add(lambda: reading(pipe[0]), 1.0)
    os.write(pipe[1], b"old")
    tasks.start()
    tasks.settle(time.monotonic() + PATIENCE)
    assert task.take(time.monotonic() + 1.0) is None


def test_one_that_takes_too_long_is_told_so(pipe: tuple[int, int]) -> None:
    tasks = SensorTasks()
    task = tasks.add(lambda: reading(pipe[0]), 0.02)
    tasks.start()
    until(lambda: tasks.wait(time.monotonic() + 0.1) or not task.busy)
    answer = task.take(0.0)
    assert answer is not None
    assert isinstance(answer.value, TimeoutError)


def test_an_unexpected_exception_costs_that_reading_alone(pipe: tuple[int, int]) -> None:
    def broken() -> ReadingSteps[int]:
        yield DescriptorWait(pipe[0], READABLE)
        raise ZeroDivisionError("oh")

    tasks = SensorTasks()
    bad = tasks.add(broken, PATIENCE)
    other, other_write = os.pipe()
    good = tasks.add(lambda: reading(other), PATIENCE)
    os.write(pipe[1], b"x")
    os.write(other_write, b"fine")
    tasks.start()
    tasks.settle(time.monotonic() + PATIENCE)
    os.close(other)
    os.close(other_write)
    answers = [task.take(0.0) for task in (bad, good)]
    assert isinstance(answers[0] and answers[0].value, ZeroDivisionError)
    assert answers[1] is not None
    assert answers[1].value == b"fine"


def test_the_alert_ends_a_wait_but_does_not_disturb_a_sample(pipe: tuple[int, int]) -> None:
    tasks = SensorTasks(pipe[0])
    start = time.monotonic()
    assert not tasks.wait(start + 0.02)
    assert time.monotonic() >= start + 0.02
    os.write(pipe[1], b"\x0f")
    start = time.monotonic()
    tasks.settle(start + 2 * PATIENCE)
    assert tasks.wait(start + 2 * PATIENCE)
    assert time.monotonic() - start < PATIENCE
    assert tasks.wait(0.0), "even without any time left"


def test_finish_gives_the_result_or_raises(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"alone")
    assert run_to_end(reading(pipe[0])) == b"alone"
    with pytest.raises(TimeoutError):
        run_to_end(reading(pipe[0]), 0.01)

"""Waits for a condition or a reading, so that tests need not sleep for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from lbdns_agent.non_blocking_sensors import ReadingSteps, SensorTasks

T = TypeVar("T")
PATIENCE: Final = 60.0  # seconds; a busy machine may stop a process for several seconds


def until(condition: Callable[[], object], longest: float = PATIENCE) -> None:
    """Wait until ``condition`` holds, and fail after ``longest`` seconds."""
    end = time.monotonic() + longest
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)


def run_to_end(steps: ReadingSteps[T], timeout: float = PATIENCE) -> T:
    """Run one reading to completion, and return its result. Exceptions raised by the reading propagate."""
    tasks = SensorTasks()
    task = tasks.add(lambda: steps, timeout)
    tasks.start()
    while task.busy:
        tasks._poll(task.deadline, None)
    assert task.result is not None
    if isinstance(task.result.value, Exception):
        raise task.result.value
    value: T = task.result.value
    return value

"""Sensors that wait for others, all in one thread: none can hold up the samples, or another.

Such a sensor's reading is a generator that yields what it waits for, and returns what it read. One thread and one
poll(2) for all of them, because each change of thread is a wake-up, and a wake-up costs more than what is done in it.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT


class Wait(NamedTuple):
    """A file descriptor, and what is awaited of it: READABLE or WRITABLE."""

    fd: int
    events: int


#: A reading that waits now and then. TimeoutError is thrown into it when it has taken too long.
Steps = Generator[Wait, None, T]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sensor read, or the exception that it raised, and when (monotonic seconds)."""

    value: Any
    at: float


class Aside:
    """One sensor's reading, as far as it has come."""

    def __init__(self, begin: Callable[[], Steps[Any]], patience: float) -> None:
        self.late = False  # it was waited for in vain, and has not answered since
        self.answer: Answer | None = None  # the newest that has not been taken
        self.wait: Wait | None = None  # what it waits for; None when it isn't reading
        self.deadline = 0.0
        self._begin = begin
        self._patience = patience
        self._steps: Steps[Any] | None = None

    @property
    def busy(self) -> bool:
        return self._steps is not None

    def start(self) -> None:
        """Begin a reading."""
        self.deadline = time.monotonic() + self._patience
        self._steps = self._begin()
        self.go_on()

    def go_on(self, error: Exception | None = None) -> None:
        """Take the reading to its next wait, or to its end; with an ``error`` to throw into it."""
        assert self._steps is not None
        try:
            self.wait = self._steps.throw(error) if error else next(self._steps)
        except StopIteration as end:
            self._end(end.value)
        except Exception as failure:  # whatever it is, it costs this sensor's metrics, not the agent
            self._end(failure.with_traceback(None))

    def take(self, oldest: float) -> Answer | None:
        """The answer, once, if it isn't older than ``oldest`` (monotonic seconds)."""
        answer, self.answer = self.answer, None
        return answer if answer is not None and answer.at >= oldest else None

    def _end(self, value: object) -> None:
        self.answer = Answer(value, time.monotonic())
        self._steps = self.wait = None
        self.late = False


class Asides:
    """All of them, and one more file descriptor whose readiness ends every wait."""

    def __init__(self, alert: int | None = None) -> None:
        self.all: list[Aside] = []
        self._alert = alert

    def add(self, begin: Callable[[], Steps[Any]], patience: float) -> Aside:
        """A sensor whose readings may take ``patience`` seconds."""
        aside = Aside(begin, patience)
        self.all.append(aside)
        return aside

    def start(self) -> None:
        """Begin a reading of every sensor that isn't at one."""
        for aside in self.all:
            if not aside.busy:
                aside.start()

    def settle(self, end: float) -> None:
        """Wait until ``end`` (monotonic seconds) for the sensors that were not late the last time."""
        while any(aside.busy and not aside.late for aside in self.all):
            self._poll(end, None)
            if time.monotonic() >= end:
                break
        for aside in self.all:
            aside.late = aside.busy

    def wait(self, end: float) -> bool:
        """Go on with what is being read until ``end`` (monotonic seconds); True as soon as the alert is ready."""
        while not self._poll(end, self._alert):
            if time.monotonic() >= end:
                return False
        return True

    def _poll(self, end: float, alert: int | None) -> bool:
        """Wait until ``end`` for anything, and let those go on that can; whether the alert is ready."""
        poller = select.poll()
        waiting = {aside.wait.fd: aside for aside in self.all if aside.wait is not None}
        for aside in waiting.values():
            assert aside.wait is not None
            poller.register(*aside.wait)
        if alert is not None:
            poller.register(alert, READABLE)
        until = min([end, *(aside.deadline for aside in waiting.values())])
        ready = dict(poller.poll(max(0.0, until - time.monotonic()) * 1000.0))
        for fd, aside in waiting.items():
            if fd in ready:
                aside.go_on()
            elif time.monotonic() >= aside.deadline:
                aside.go_on(TimeoutError())
        return alert in ready


def finish(steps: Steps[T], patience: float) -> T:
    """Run one reading to its end, waiting where it waits. Raises what it raises."""
    alone = Asides()
    aside = alone.add(lambda: steps, patience)
    alone.start()
    while aside.busy:
        alone._poll(aside.deadline, None)
    assert aside.answer is not None
    if isinstance(aside.answer.value, Exception):
        raise aside.answer.value
    value: T = aside.answer.value
    return value

"""Runs all sensors that wait for a server or the network, in one thread that calls poll(2).

A reading is a generator that yields each file descriptor it must wait for, and returns the result. A slow sensor does
not delay other sensors. A single thread runs all sensors, because switching between threads costs more than the work
itself.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT


class DescriptorWait(NamedTuple):
    """A file descriptor and the event to wait for (READABLE or WRITABLE)."""

    fd: int
    events: int


#: A reading in steps. When its time is up, TimeoutError is raised at the ``yield`` where it waits.
ReadingSteps = Generator[DescriptorWait, None, T]


@dataclass(frozen=True)
class TimedReading:
    """A reading's result or exception, and the time (monotonic seconds) at which it ended."""

    value: Any
    at: float


class Service(Protocol):
    """A service, such as a server, that uses descriptors in the same loop as the sensors. Its methods must not
    block."""

    def waits(self) -> Iterable[DescriptorWait]:
        """Return the descriptors to wait for."""
        ...

    def deadline(self) -> float:
        """Return the monotonic time at which ``serve`` must be called even if no descriptor is ready."""
        ...

    def serve(self, ready: Collection[int]) -> None:
        """Handle the descriptors that are ready."""
        ...


class SensorTask:
    """A task that runs the readings of one non-blocking sensor, one at a time."""

    def __init__(self, begin: Callable[[], ReadingSteps[Any]], timeout: float, awaited: bool = True) -> None:
        self.awaited = awaited  # whether a report waits for the result
        self.late = False  # True after ``settle`` has stopped waiting for this task, until the next result
        self.result: TimedReading | None = None  # the newest result that nobody has taken
        self.wait: DescriptorWait | None = None  # None while no reading is in progress
        self.deadline = 0.0
        self._begin = begin
        self._timeout = timeout
        self._steps: ReadingSteps[Any] | None = None

    @property
    def busy(self) -> bool:
        return self._steps is not None

    def start(self) -> None:
        """Start a reading. Call this method only if the task is idle."""
        self.deadline = time.monotonic() + self._timeout
        self._steps = self._begin()
        self.resume()

    def resume(self, error: Exception | None = None) -> None:
        """Advance the current reading until it must wait or is finished. If ``error`` is given, it is thrown into the
        reading's generator.
        """
        assert self._steps is not None
        try:
            self.wait = self._steps.throw(error) if error else next(self._steps)
        except StopIteration as end:
            self._end(end.value)
        except Exception as failure:  # no error may affect more than this sensor's metrics
            self._end(failure.with_traceback(None))

    def take(self, oldest: float) -> TimedReading | None:
        """Remove the newest result and return it, or return None if it is older than ``oldest`` (monotonic seconds)."""
        result, self.result = self.result, None
        return result if result is not None and result.at >= oldest else None

    def _end(self, value: object) -> None:
        self.result = TimedReading(value, time.monotonic())
        self._steps = self.wait = None
        self.late = False


class SensorTasks:
    """The tasks of all non-blocking sensors, and the services that share their loop.

    ``wait`` returns early if the file descriptor ``alert`` becomes readable.
    """

    def __init__(self, alert: int | None = None) -> None:
        self.all: list[SensorTask] = []
        self.services: list[Service] = []
        self._alert = alert

    def add(self, begin: Callable[[], ReadingSteps[Any]], timeout: float, awaited: bool = True) -> SensorTask:
        """Add a sensor whose readings may each take up to ``timeout`` seconds.

        If ``awaited`` is false, reports do not wait for this sensor.
        """
        task = SensorTask(begin, timeout, awaited)
        self.all.append(task)
        return task

    def start(self) -> None:
        """Start a reading of every idle sensor."""
        for task in self.all:
            if not task.busy:
                task.start()

    def settle(self, end: float) -> None:
        """Wait for the readings of awaited sensors, until ``end`` (monotonic seconds) at the latest. If a sensor was
        too slow in the last call, don't wait for its current reading."""
        while any(task.busy and task.awaited and not task.late for task in self.all):
            self._poll(end, None)
            if time.monotonic() >= end:
                break
        for task in self.all:
            task.late = task.busy

    def wait(self, end: float) -> bool:
        """Take readings until ``end`` (monotonic seconds); return True as soon as ``alert`` is readable."""
        while not self._poll(end, self._alert):
            if time.monotonic() >= end:
                return False
        return True

    def _poll(self, end: float, alert: int | None) -> bool:
        """Call poll(2) once, waiting until ``end`` at the latest, and resume the tasks that are ready.

        Return whether ``alert`` is readable.
        """
        poller = select.poll()
        waiting = {task.wait.fd: task for task in self.all if task.wait is not None}
        for task in waiting.values():
            assert task.wait is not None
            poller.register(*task.wait)
        if alert is not None:
            poller.register(alert, READABLE)
        until = min([end, *(task.deadline for task in waiting.values())])
        for service in self.services:
            for wait in service.waits():
                poller.register(*wait)
            until = min(until, service.deadline())
        ready = dict(poller.poll(max(0.0, until - time.monotonic()) * 1000.0))
        for fd, task in waiting.items():
            if fd in ready:
                task.resume()
            elif time.monotonic() >= task.deadline:
                task.resume(TimeoutError())
        for service in self.services:
            service.serve(ready)
        return alert in ready

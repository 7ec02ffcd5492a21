"""An event loop that does only what a client of HTTP and DNS needs: coroutines, one epoll, timers, limits of time.

A request takes some 100 us of asyncio's time before anything is said about HTTP; here it takes about 5.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Generator
from heapq import heappop, heappush
from pathlib import Path
from types import coroutine
from typing import Any, Final, Protocol

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
_MILLISECOND: Final = 1e-3
_LONGEST: Final = 0.5  # s to sleep at a time: whoever wants the loop to end is heard within it
_BATCH: Final = 32  # events taken at a time: timers are looked at in between, some 2 ms later at most


class OutOfTimeError(Exception):
    """The limit of time that was set for what a task does is over."""


@coroutine
def pause() -> Generator[None, None, None]:
    """Wait until somebody resumes the task."""
    yield


class Task:
    """A coroutine under way in a loop."""

    __slots__ = ("_coroutine", "_loop", "_on_end")

    def __init__(self, loop: Loop, work: Coroutine[Any, Any, None], on_end: Callable[[], None]) -> None:
        self._loop, self._coroutine, self._on_end = loop, work, on_end

    def resume(self) -> None:
        """Go on until it pauses again. What it raises comes out here: that is a mistake in the program."""
        self._loop.current = self
        try:
            self._coroutine.send(None)
        except StopIteration:
            self._on_end()

    def interrupt(self, error: Exception) -> None:
        """Go on with ``error`` raised where it pauses."""
        self._loop.current = self
        try:
            self._coroutine.throw(error)
        except StopIteration:
            self._on_end()

    def close(self) -> None:
        """End it where it is; its ``finally`` clauses run."""
        self._coroutine.close()


class Deadlines(Protocol):
    """Something that has to be done in time."""

    def enforce(self, now: float) -> float:
        """Do what is due; when the next is."""


class Limits:
    """Tasks that may take ``seconds`` from now on: all the same, so the one that was set first is over first."""

    __slots__ = ("_error", "_loop", "seconds", "under_way")

    def __init__(self, loop: Loop, seconds: float, error: type[Exception] = OutOfTimeError) -> None:
        self._loop, self._error, self.seconds = loop, error, seconds
        self.under_way: OrderedDict[Task, float] = OrderedDict()
        loop.limits.append(self)

    def begin(self) -> Task:
        """Limit the current task from now on. It is handed back for ``end``."""
        task = self._loop.current
        assert task is not None, "only a task can be limited"
        self.under_way[task] = self._loop.clock() + self.seconds
        return task

    def end(self, task: Task) -> None:
        self.under_way.pop(task, None)

    def enforce(self, now: float) -> float:
        """Interrupt what has taken too long; when the next one will have."""
        while self.under_way:
            task, end = next(iter(self.under_way.items()))
            if end > now:
                return end
            del self.under_way[task]
            task.interrupt(self._error())
        return float("inf")


class Waiter:
    """Lets tasks wait for a descriptor, which is closed only after ``release``."""

    __slots__ = ("_descriptor", "_events", "_loop", "_task")

    def __init__(self, loop: Loop, descriptor: int) -> None:
        self._loop, self._descriptor = loop, descriptor
        self._events = 0
        self._task: Task | None = None

    async def ready(self, events: int) -> None:
        """Until the descriptor is ready for READ or WRITE. Now and then it turns out not to be: try again then."""
        self.listen(events)
        self._task = self._loop.current
        await pause()
        self._task = None

    def listen(self, events: int) -> None:
        """Be told of READ or WRITE from now on, also while no task waits for it."""
        if not self._events:
            self._loop.watch(self._descriptor, events, self._wake)
        elif events != self._events:
            self._loop.change(self._descriptor, events)
        self._events = events

    def release(self) -> None:
        if self._events:
            self._loop.forget(self._descriptor)
            self._events = 0

    def unexpected(self) -> None:
        """Something happened while no task waited."""

    def _wake(self) -> None:
        if self._task is not None:
            self._task.resume()
        else:
            self.unexpected()


class Loop:
    """Runs tasks in one thread. Times are of ``clock``, which has to be the monotonic one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.current: Task | None = None
        self.limits: list[Deadlines] = []
        self.handlers: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_number = 0
        self._tasks: set[Task] = set()
        self._stopped = False

    def start(self, work: Coroutine[Any, Any, None]) -> Task:
        """Begin a task; it runs at once to where it pauses first."""
        task = Task(self, work, lambda: self._tasks.discard(task))
        self._tasks.add(task)
        starter = self.current
        task.resume()
        self.current = starter
        return task

    @property
    def tasks(self) -> int:
        """How many tasks are under way."""
        return len(self._tasks)

    def call_at(self, when: float, do: Callable[[], None]) -> None:
        self._timer_number += 1
        heappush(self._timers, (when, self._timer_number, do))

    async def sleep_until(self, when: float) -> None:
        """Let the current task wait. It must not be limited meanwhile: who is interrupted isn't resumed any more."""
        assert self.current is not None
        self.call_at(when, self.current.resume)
        await pause()

    def watch(self, descriptor: int, events: int, handler: Callable[[], None]) -> None:
        """Call ``handler`` whenever a descriptor is ready; it is forgotten by ``forget``, before it is closed."""
        self.handlers[descriptor] = handler
        self._epoll.register(descriptor, events)

    def change(self, descriptor: int, events: int) -> None:
        self._epoll.modify(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """The kernel forgets a descriptor by itself when it is closed (epoll(7), question 6): one call less."""
        self.handlers.pop(descriptor, None)

    def stop(self) -> None:
        self._stopped = True

    def run(self) -> None:
        """Until no task is left, or ``stop``: tasks that are still under way then are closed."""
        _sleep_exactly()
        handlers = self.handlers
        try:
            while self._tasks and not self._stopped:
                for descriptor, _ in self._poll():
                    # One that was closed by an earlier event of the same batch has none any more
                    handler = handlers.get(descriptor)
                    if handler is not None:
                        handler()
        finally:
            self.close()

    def close(self) -> None:
        while self._tasks:
            self._tasks.pop().close()
        self._timers.clear()
        self._epoll.close()

    def _poll(self) -> list[tuple[int, int]]:
        now = self.clock()
        timers = self._timers
        while timers and timers[0][0] <= now:
            heappop(timers)[2]()
        due = min(now + _LONGEST, *(limits.enforce(now) for limits in self.limits), timers[0][0] if timers else now + 1)
        if self._stopped or not self._tasks:
            return []
        wait = due - self.clock()
        if wait > 2 * _MILLISECOND:
            # epoll counts whole milliseconds, and rounds up: what is left is slept below
            return self._epoll.poll(wait - _MILLISECOND, _BATCH)
        if wait > 0:
            select.select((self._epoll,), (), (), wait)
        return self._epoll.poll(0, _BATCH)


def _sleep_exactly() -> None:
    """Ask for sleeps that end on time: 50 us later is usual otherwise (proc(5), timerslack_ns)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/timerslack_ns").write_text("1")

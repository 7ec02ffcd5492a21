"""The gate that all work for readers of pages passes, so that it can't slow DNS: one short slice after another, and
after each a pause that is the longer the more queries are answered.

Pages are made in the event loop that answers queries, and a query that comes during a slice waits for its end. So
slices are short, and the part of the time that is slices is small where there are queries to answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Final, Literal, TypeVar

T = TypeVar("T")

#: Those who wait, in lanes of their own that get the same time: a flood in one doesn't hold up the others.
Lane = Literal["work", "health", "request", "connection"]
LANES: Final[tuple[Lane, ...]] = ("work", "health", "request", "connection")

LOOK: Final = 0.25  # seconds between looks at how many queries come
FALL: Final = 0.6  # of a pause after a look: queries that cease for a moment may come again
EASY: Final = 10.0  # queries/s that lengthen pauses by one more slice
LEAST_PAUSE: Final = 1.0  # slices: with nothing to answer, half of the time is for pages
LONGEST_PAUSE: Final = 500.0  # slices: of a busy server pages take 0.2 %, and one query in 500 meets one ...
LARGE_PAUSE: Final = 80.0  # ... of a large farm 1.2 %: a document takes 60 ms there, and reports ten times as much
SMALL: Final = 100  # members up to which LONGEST_PAUSE holds; it shrinks as farms grow
BRISK_PAUSE: Final = 4.0  # slices, at most, as long as there is something saved ...
KEPT: Final = 0.002  # seconds that a lane in which nobody waited may be ahead of the others when somebody does
SAVED: Final = 0.05  # ... which is no more than this, in seconds: opening the page, 40 requests, needs no patience
MAX_DEBT: Final = 0.001  # seconds; a slice that a hiccup of the machine made long doesn't stop the pages
MAX_REST: Final = 3.0  # seconds, after what was done beside the gate
QUIET_SLICE: Final = 0.001  # seconds
BUSY_SLICE: Final = 0.0002  # seconds: what is added to the answers that meet one
BUSY_FROM: Final = 10.0  # slices of pause from which on slices are short


class Gate:
    """Lets one in at a time. ``queries`` is the number of DNS queries so far, ``members`` that of the farm.

    What is spent comes out of an account, into which a part of the time flows: 1 second in ``pause``. While there is
    something in it pauses are short, and while there is nothing they last until there is.
    """

    def __init__(self, queries: Callable[[], int], members: Callable[[], int]) -> None:
        self._queries, self._members = queries, members
        self._seen, self._seen_at = 0, 0.0
        self._looking: asyncio.TimerHandle | None = None
        self._waiting: dict[Lane, deque[asyncio.Future[None]]] = {lane: deque() for lane in LANES}
        self._used: dict[Lane, float] = dict.fromkeys(LANES, 0.0)  # seconds of CPU time, to compare lanes by
        self._inside: Lane | None = None
        self._opens = 0.0  # loop time
        self._opening: asyncio.TimerHandle | None = None
        self._beside = asyncio.Lock()
        self._rested = 0.0  # monotonic seconds
        self.pause = LEAST_PAUSE  # slices
        self._saved, self._saved_at = SAVED, time.monotonic()  # seconds of CPU time, and when that was
        self.spent = 0.0  # seconds of CPU time so far

    def start(self) -> None:
        """Begin to watch how many queries come."""
        self._seen, self._seen_at = self._queries(), time.monotonic()
        self._looking = asyncio.get_running_loop().call_later(LOOK, self._look)

    def stop(self) -> None:
        for timer in (self._looking, self._opening):
            if timer is not None:
                timer.cancel()

    @property
    def slice(self) -> float:
        """How long a slice may be just now, in seconds."""
        return QUIET_SLICE if self.pause < BUSY_FROM else BUSY_SLICE

    def waiting(self, lane: Lane) -> int:
        """How many wait in a lane."""
        return len(self._waiting[lane])

    def turn(self, lane: Lane, more: float = 0.0) -> Turn:
        """For ``async with``: what is within must not await. ``more`` is what it will cost besides, in seconds."""
        return Turn(self, lane, more)

    async def work(self, steps: Iterator[T]) -> list[T]:
        """All that ``steps`` yield, each a small step of work, in as many slices as they take."""
        done: list[T] = []
        while True:
            async with self.turn("work"):
                end = time.perf_counter() + self.slice
                for step in steps:
                    done.append(step)
                    if time.perf_counter() >= end:
                        break
                else:
                    return done

    async def beside(self, work: Coroutine[None, None, T]) -> T:
        """The result of ``work`` that a thread does, or that has slices of its own: one at a time, and a rest before
        the next. A thread that computes holds the interpreter's lock, which the event loop then waits for."""
        try:
            async with self._beside:
                await asyncio.sleep(max(0.0, self._rested - time.monotonic()))
                began = time.monotonic()
                try:
                    return await work
                finally:
                    now = time.monotonic()
                    self._rested = now + min((now - began) * self.pause, MAX_REST)
        finally:
            work.close()  # if it never came to its turn

    async def enter(self, lane: Lane) -> None:
        """Wait for the turn; ``leave`` has to follow."""
        loop = asyncio.get_running_loop()
        if not self._waiting[lane]:  # what it didn't use while nobody waited in it is gone, but for a little
            self._used[lane] = max(self._used[lane], self._least_used() - KEPT)
        if self._inside is None and self._opening is None and loop.time() >= self._opens:
            self._inside = lane
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting[lane].append(turn)
        self._open_soon()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with contextlib.suppress(ValueError):
                    self._waiting[lane].remove(turn)
            else:
                self.leave(0.0)  # it was let in, and goes at once
            raise

    def leave(self, spent: float) -> None:
        """The turn is over; ``spent`` is what it took, in seconds of CPU time."""
        if self._inside:
            self._used[self._inside] += spent
        self._inside = None
        self.spent += spent
        now = time.monotonic()
        came = (now - self._saved_at) / self.pause
        self._saved = max(min(self._saved + came, SAVED) - spent, -max(MAX_DEBT, self.slice))
        self._saved_at = now
        wait = spent * min(self.pause, BRISK_PAUSE) if self._saved > 0 else -self._saved * self.pause
        self._opens = asyncio.get_running_loop().time() + wait
        self._open_soon()

    def _least_used(self) -> float:
        """Of the lanes in which somebody waits."""
        return min((self._used[lane] for lane in LANES if self._waiting[lane]), default=0.0)

    def _open_soon(self) -> None:
        if self._inside is not None or self._opening is not None or not any(self._waiting.values()):
            return
        self._opening = asyncio.get_running_loop().call_at(self._opens, self._open)

    def _open(self) -> None:
        self._opening = None
        for lane in sorted(LANES, key=self._used.__getitem__):
            while self._waiting[lane]:
                turn = self._waiting[lane].popleft()
                if not turn.done():  # cancelled, and doesn't know yet
                    self._inside = lane
                    turn.set_result(None)
                    return

    def _look(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(LOOK, self._look)
        queries, now = self._queries(), time.monotonic()
        rate = (queries - self._seen) / max(now - self._seen_at, LOOK / 2)
        self._seen, self._seen_at = queries, now
        longest = max(LONGEST_PAUSE * min(1.0, SMALL / max(self._members(), 1)), LARGE_PAUSE)
        self.pause = min(max(rate / EASY, self.pause * FALL, LEAST_PAUSE), longest)


class Turn:
    """One turn at the gate; what it took is measured."""

    __slots__ = ("_began", "_gate", "_lane", "_more")

    def __init__(self, gate: Gate, lane: Lane, more: float) -> None:
        self._gate, self._lane, self._more = gate, lane, more
        self._began = 0.0

    async def __aenter__(self) -> None:
        await self._gate.enter(self._lane)
        self._began = time.thread_time()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.leave(time.thread_time() - self._began + self._more)

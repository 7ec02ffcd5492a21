"""The render scheduler: runs all work for HTTP clients in short slices, so that DNS answers are not delayed.

Each slice is followed by a pause that grows with the query rate.

Documents are built in the event loop that also answers queries. A query that arrives during a slice must wait until the
slice ends. Slices are therefore short and, on a busy server, use only a small fraction of the CPU time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Final, Literal, TypeVar

from lbdns.process.duty_cycle import DutyCycle

T = TypeVar("T")

#: Kinds of work. Each lane gets the same CPU time, so a flood in one lane does not hold up the others
RenderLane = Literal["work", "health", "request", "handshake"]
LANES: Final[tuple[RenderLane, ...]] = ("work", "health", "request", "handshake")

QUERY_SAMPLE_PERIOD: Final = 0.25  # seconds between two measurements of the query rate
PAUSE_DECAY: Final = 0.6  # a pause shrinks to no less than this fraction per measurement: queries may resume
QUERIES_PER_SLICE: Final = 10.0  # queries/s that lengthen the pause by one slice
SHORTEST_PAUSE: Final = 1.0  # slices: without queries, documents may take half of the time
LONGEST_PAUSE: Final = 500.0  # slices: on a busy server, documents take 0.2 %, and one query in 500 meets a slice
#: slices: on a large farm, documents take 1.2 %; a document takes 60 ms there, and reports take ten times as much
LARGE_FARM_PAUSE: Final = 80.0
SMALL_FARM: Final = 100  # members up to which LONGEST_PAUSE holds; the limit falls as farms grow
CREDIT_PAUSE: Final = 4.0  # slices at most, while credit is left
MAX_LANE_LEAD: Final = 0.002  # seconds of CPU time that an idle lane may gain on the others
MAX_CREDIT: Final = 0.05  # seconds of CPU time: enough to open the page (40 requests) without pauses
MAX_DEBT: Final = 0.001  # seconds; a hiccup of the machine during a slice must not stop the pages
LONGEST_REST: Final = 3.0  # seconds, after work in a thread
QUIET_SLICE: Final = 0.001  # seconds
BUSY_SLICE: Final = 0.0002  # seconds: the delay of the answers that meet a slice
BUSY_FROM: Final = 10.0  # slices of pause; from this on, slices are short


class RenderScheduler:
    """A scheduler that makes tasks take turns, so that only one task runs at a time.

    ``queries`` returns the number of DNS queries received so far; ``members`` returns the number of members. The CPU
    time of each slice is deducted from a credit, which grows by 1 second of CPU time every ``pause`` seconds. If the
    credit is used up, pauses are longer.
    """

    def __init__(self, queries: Callable[[], int], members: Callable[[], int]) -> None:
        self._queries, self._members = queries, members
        self._seen, self._seen_at = 0, 0.0
        self._sampling: asyncio.TimerHandle | None = None
        self._waiting: dict[RenderLane, deque[asyncio.Future[None]]] = {lane: deque() for lane in LANES}
        self._used: dict[RenderLane, float] = dict.fromkeys(LANES, 0.0)  # seconds of CPU time, to compare lanes
        self._inside: RenderLane | None = None
        self._opens = 0.0  # loop time
        self._opening: asyncio.TimerHandle | None = None
        self._beside = asyncio.Lock()
        self._rested = 0.0  # monotonic seconds
        self.pause = SHORTEST_PAUSE  # slices
        self._credit, self._credit_at = MAX_CREDIT, time.monotonic()  # seconds of CPU time, and when it was computed
        self.spent = 0.0  # seconds of CPU time so far

    def start(self) -> None:
        self._seen, self._seen_at = self._queries(), time.monotonic()
        self._sampling = asyncio.get_running_loop().call_later(QUERY_SAMPLE_PERIOD, self._sample_queries)

    def stop(self) -> None:
        """Stop measuring the query rate, and stop scheduling turns."""
        for timer in (self._sampling, self._opening):
            if timer is not None:
                timer.cancel()

    @property
    def slice(self) -> float:
        """The number of seconds that a slice may currently take."""
        return QUIET_SLICE if self.pause < BUSY_FROM else BUSY_SLICE

    def waiting(self, lane: RenderLane) -> int:
        """Return the number of tasks that are waiting in a lane."""
        return len(self._waiting[lane])

    @contextlib.asynccontextmanager
    async def turn(self, lane: RenderLane, extra: float = 0.0) -> AsyncIterator[None]:
        """Wait for a turn, and measure the CPU time used in the body of the ``async with`` statement.

        The body must not contain ``await``. ``extra`` is the CPU time in seconds that the turn's work uses outside the
        body. It is added to the measured time.
        """
        await self._enter(lane)
        began = time.thread_time()
        try:
            yield
        finally:
            self._leave(time.thread_time() - began + extra)

    async def work(self, steps: Iterator[T]) -> list[T]:
        """Return a list of the values that ``steps`` yields. The steps run in slices, so each step must be short."""
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
        """Await ``work``, and return its result. ``work`` must run in a thread, or yield to the event loop after each
        slice.

        While a thread computes, the event loop must wait for the interpreter lock. Only one call of ``beside``
        therefore runs at a time, with a pause before the next call.
        """
        try:
            async with self._beside:
                await asyncio.sleep(max(0.0, self._rested - time.monotonic()))
                began = time.monotonic()
                try:
                    return await work
                finally:
                    now = time.monotonic()
                    self._rested = now + DutyCycle(self.pause, longest=LONGEST_REST).pause_after(now - began)
        finally:
            work.close()  # in case it never started

    async def _enter(self, lane: RenderLane) -> None:
        loop = asyncio.get_running_loop()
        if not self._waiting[lane]:  # an idle lane may save up only a little CPU time
            self._used[lane] = max(self._used[lane], self._least_used() - MAX_LANE_LEAD)
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
                self._leave(0.0)  # its turn has begun: end it
            raise

    def _leave(self, spent: float) -> None:
        if self._inside:
            self._used[self._inside] += spent
        self._inside = None
        self.spent += spent
        now = time.monotonic()
        came = (now - self._credit_at) / self.pause
        self._credit = max(min(self._credit + came, MAX_CREDIT) - spent, -max(MAX_DEBT, self.slice))
        self._credit_at = now
        wait = spent * min(self.pause, CREDIT_PAUSE) if self._credit > 0 else -self._credit * self.pause
        self._opens = asyncio.get_running_loop().time() + wait
        self._open_soon()

    def _least_used(self) -> float:
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
                if not turn.done():  # cancelled, but not yet removed
                    self._inside = lane
                    turn.set_result(None)
                    return

    def _sample_queries(self) -> None:
        self._sampling = asyncio.get_running_loop().call_later(QUERY_SAMPLE_PERIOD, self._sample_queries)
        queries, now = self._queries(), time.monotonic()
        rate = (queries - self._seen) / max(now - self._seen_at, QUERY_SAMPLE_PERIOD / 2)
        self._seen, self._seen_at = queries, now
        longest = max(LONGEST_PAUSE * min(1.0, SMALL_FARM / max(self._members(), 1)), LARGE_FARM_PAUSE)
        self.pause = min(max(rate / QUERIES_PER_SLICE, self.pause * PAUSE_DECAY, SHORTEST_PAUSE), longest)

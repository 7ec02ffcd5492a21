"""The history of a running program: the event loop hands samples and events over, a thread of its own writes them.

Nothing here ever waits for the disk. What can't be written is dropped, counted and shown, and tried again later.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.config.history import HistoryConfig
from lbdns.errors import LbdnsError
from lbdns.events import Event, Events
from lbdns.history.reader import Reader
from lbdns.history.recorder import Recorder
from lbdns.history.sample import Sample
from lbdns.history.series import Series
from lbdns.history.store import DamagedError, is_damage, move_aside

COMMIT_EVERY: Final = 5.0  # s
RETRY: Final = 10.0  # s until a file that couldn't be written is tried again
MAX_WAITING: Final = 120  # samples and events; the thread takes them every few seconds, or is stuck
MAX_READINGS: Final = 50_000  # in samples that wait: some 50 MB
MAX_MEMBERS: Final = 2000  # of which a sample a second is taken; of more, fewer: a second of 2000 takes some 40 ms
BREATH: Final = 0.0001  # s: enough for a thread that waits for the interpreter, the one that answers queries, to get it
STOP: Final = 10.0  # s that the last commit may take


@dataclass(frozen=True, slots=True)
class HistoryFigures:
    """How recording goes. ``dropped`` are samples and events that are lost; ``bytes`` is what the file takes."""

    on: bool
    ok: bool
    error: str
    dropped: int
    bytes: int


class History:
    """Everything but ``_run`` and what it calls is the event loop's."""

    def __init__(
        self,
        path: Path,
        config: HistoryConfig,
        events: Events,
        *,
        commit_every: float = COMMIT_EVERY,
        retry: float = RETRY,
    ) -> None:
        self.path = path
        self._config, self._events = config, events
        self._commit_every, self._retry = commit_every, retry
        self._writer: _Writer | None = None
        self._dropped = 0  # by writers that have ended
        self._unsubscribe: Callable[[], None] | None = None
        self._last_taken = -math.inf  # monotonic seconds of the sample

    async def start(self) -> None:
        """Begin to record if that is configured. Opens nothing yet and never raises."""
        if self._config.on and self._writer is None:
            loop = asyncio.get_running_loop()

            def tell(text: str, level: int) -> None:
                loop.call_soon_threadsafe(
                    lambda: self._events.tell("history", text, level=level, logger="lbdns.history")
                )

            self._writer = _Writer(self.path, self._config, tell, self._commit_every, self._retry)
            self._unsubscribe = self._events.subscribe(self.tell)
            self._writer.start()

    async def stop(self) -> None:
        """Write what there is, and end."""
        writer, self._writer = self._writer, None
        if self._unsubscribe:
            self._unsubscribe()
            self._unsubscribe = None
        if writer is not None:
            await asyncio.to_thread(writer.stop)
            self._dropped += writer.dropped

    async def reconfigure(self, config: HistoryConfig, path: Path | None = None) -> None:
        """Go by another configuration from now on; ``path``: in another file."""
        moved = path is not None and path != self.path
        if self._writer is not None and (moved or not config.on):
            await self.stop()
        if path is not None:
            self.path = path
        self._config = config
        if self._writer is not None:
            self._writer.configure(config)
        await self.start()

    def record(self, sample: Sample) -> None:
        """Take note of a sample; to be called once a second. Costs a microsecond."""
        if self._writer is None:
            return
        pause = sample.size / MAX_MEMBERS - 0.5  # 0.5: the caller's seconds are not exact
        if pause > 1 and sample.now - self._last_taken < pause:
            return
        self._last_taken = sample.now
        self._writer.put(sample)

    def tell(self, event: Event) -> None:
        """Take note of an event. ``start`` has it subscribed."""
        if self._writer is not None:
            self._writer.put(event)

    @property
    def figures(self) -> HistoryFigures:
        writer = self._writer
        if writer is None:
            return HistoryFigures(False, True, "", self._dropped, 0)
        return HistoryFigures(True, not writer.error, writer.error, self._dropped + writer.dropped, writer.bytes)

    async def series(
        self, pool: str, metric: str, members: Sequence[str], start: float, end: float, points: int
    ) -> Series:
        """As ``Reader.series``, in a thread. What was recorded in the last few seconds may be missing; before the first
        writing there is nothing."""
        if not self.path.exists():
            return Series(pool, metric, "raw", 1.0, (), {})
        reader = Reader(self.path, _breathe)
        return await asyncio.to_thread(reader.series, pool, metric, members, start, end, points)

    async def events(self, since: float = 0.0, limit: int = 1000, kind: str = "") -> list[Event]:
        """As ``Reader.events``, in a thread."""
        return await asyncio.to_thread(Reader(self.path).events, since, limit, kind)


class _Writer:
    """The thread, and what it shares with the event loop: attributes that one side sets and the other reads."""

    def __init__(
        self,
        path: Path,
        config: HistoryConfig,
        tell: Callable[[str, int], None],
        commit_every: float,
        retry: float,
    ) -> None:
        self.error = ""
        self.bytes = 0
        self._overflowed = self._lost = 0  # what the event loop dropped, and what the thread did
        self._tell, self._commit_every, self._retry = tell, commit_every, retry
        self._recorder = Recorder(path, config, _breathe)
        self._waiting: deque[Sample | Event] = deque()
        self._stopping = threading.Event()
        self._failed_at = -math.inf  # monotonic; of the last failure
        self._lost_before = 0  # what was lost when the trouble began
        # A daemon: a disk that hangs must not keep the program from ending
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits; not for the event loop."""
        self._stopping.set()
        self._thread.join(STOP)

    def configure(self, config: HistoryConfig) -> None:
        self._recorder.config = config

    @property
    def dropped(self) -> int:
        return self._overflowed + self._lost

    def put(self, item: Sample | Event) -> None:
        # No lock: a deque's ends are safe to use from two threads, and a limit that is off by one is none the worse
        size = item.size if isinstance(item, Sample) else 0
        if len(self._waiting) >= MAX_WAITING or len(self._waiting) * size > MAX_READINGS:
            self._overflowed += 1
        else:
            self._waiting.append(item)

    # In the thread

    def _run(self) -> None:
        while not self._stopping.wait(self._commit_every):
            self._turn(self._recorder.commit)
        self._failed_at = -math.inf  # once more, whatever was
        self._turn(self._recorder.finish)

    def _turn(self, commit: Callable[[], None]) -> None:
        """Take what waits and write it. In trouble, events wait for better times, and samples are lost."""
        resting = bool(self.error) and time.monotonic() < self._failed_at + self._retry
        try:
            self._take(not resting)
            if resting:
                return
            commit()
        except Exception as error:  # whatever it is: this thread goes on, and says so
            self._fail(error)
            return
        self.bytes = self._recorder.bytes
        if self.error:
            self.error = ""
            lost = self.dropped - self._lost_before
            self._tell(f"{self._recorder.path}: recorded again; {lost} samples and events are lost", logging.INFO)

    def _take(self, samples: bool) -> None:
        for _ in range(len(self._waiting)):
            item = self._waiting.popleft()
            if isinstance(item, Event):
                self._lost += self._recorder.add(item)
            elif samples:
                self._recorder.take(item)
            else:
                self._lost += 1

    def _fail(self, error: Exception) -> None:
        before, self.error = self.error, _why(error)
        if not before:
            self._lost_before = self.dropped
        self._lost += self._recorder.abandon()
        self._failed_at = time.monotonic()
        path = self._recorder.path
        if isinstance(error, DamagedError) or (isinstance(error, sqlite3.Error) and is_damage(error)):
            try:
                aside = move_aside(path)
            except OSError as moving:
                self.error = f"{self.error}; it can't be moved away: {moving.strerror}"
            else:
                self._tell(f"{self.error}: damaged, and moved to {aside.name}; a new one is begun", logging.ERROR)
                return
        if self.error != before:
            known = isinstance(error, LbdnsError)
            what = self.error if known else f"{path}: the history can't be written: {self.error}"
            self._tell(f"{what}; nothing is recorded until it can be", logging.WARNING)


def _breathe() -> None:
    time.sleep(BREATH)


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    known = isinstance(error, LbdnsError | sqlite3.Error)
    return str(error) if known else f"{type(error).__name__}: {error}"

"""The live history of a running program.

The event loop queues samples and events, and a thread writes them to the file.

The event loop never waits for the disk. If writing fails, the data is dropped and counted, and writing resumes later.
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

from lbdns.config.recording_sections import HistoryConfig
from lbdns.events.event_log import EventLog, LoggedEvent
from lbdns.history.history_reader import HistoryReader, HistorySeries
from lbdns.history.history_recorder import HistoryRecorder
from lbdns.history.history_sample import HistorySample
from lbdns.history.history_store import is_damage, move_aside
from lbdns_shared.errors import LbdnsError

COMMIT_EVERY: Final = 5.0  # s
RETRY: Final = 10.0  # s before writing is retried after a failure
STOP: Final = 10.0  # s to wait for the last commit
MAX_MEMBERS: Final = 2000  # members up to which a sample is taken every second; a sample of 2000 takes some 40 ms
MAX_WAITING: Final = 120  # queued samples and events; the thread takes them every few seconds unless it is stuck
MAX_READINGS: Final = 50_000  # members in all queued samples; some 50 MB
BREATH: Final = 0.0001  # s: enough for the event loop's thread to get the interpreter


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """The state of recording.

    ``dropped`` counts lost samples and events; ``bytes`` is the total size of the file and its write-ahead log.
    """

    on: bool
    ok: bool
    error: str
    dropped: int
    bytes: int


class LiveHistory:
    """Records one program's history, and reads it in separate threads. Call all methods from the event loop."""

    def __init__(
        self,
        path: Path,
        config: HistoryConfig,
        events: EventLog,
        *,
        commit_every: float = COMMIT_EVERY,
        retry: float = RETRY,
    ) -> None:
        self.path = path
        self._config, self._events = config, events
        self._commit_every, self._retry = commit_every, retry
        self._writer: _HistoryWriter | None = None
        self._dropped = 0  # by earlier writers
        self._unsubscribe: Callable[[], None] | None = None
        self._last_taken = -math.inf  # monotonic seconds of the last sample

    async def start(self) -> None:
        """Start recording if the history is enabled. Opens the file later, so never raises an exception."""
        if self._config.on and self._writer is None:
            loop = asyncio.get_running_loop()

            def log(text: str, level: int) -> None:
                loop.call_soon_threadsafe(
                    lambda: self._events.record("history", text, level=level, logger="lbdns.history")
                )

            self._writer = _HistoryWriter(self.path, self._config, log, self._commit_every, self._retry)
            self._unsubscribe = self._events.subscribe(self.record_event)
            self._writer.thread.start()

    async def stop(self) -> None:
        """Write all queued samples and events, and stop recording."""
        writer, self._writer = self._writer, None
        if self._unsubscribe:
            self._unsubscribe()
            self._unsubscribe = None
        if writer is not None:
            await asyncio.to_thread(writer.stop)
            self._dropped += writer.dropped

    async def reconfigure(self, config: HistoryConfig, path: Path | None = None) -> None:
        """Switch to a new configuration and, if ``path`` is given, to another file."""
        moved = path is not None and path != self.path
        if self._writer is not None and (moved or not config.on):
            await self.stop()
        if path is not None:
            self.path = path
        self._config = config
        if self._writer is not None:
            self._writer.recorder.config = config
        await self.start()

    def record_sample(self, sample: HistorySample) -> None:
        """Queue a sample for writing. Call this method once per second; each call takes about a microsecond."""
        if self._writer is None:
            return
        pause = sample.size / MAX_MEMBERS - 0.5  # 0.5: the caller's period is not exact
        if pause > 1 and sample.now - self._last_taken < pause:
            return
        self._last_taken = sample.now
        self._writer.put(sample)

    def record_event(self, event: LoggedEvent) -> None:
        """Queue an event for writing; ``start`` subscribes this method to the event log."""
        if self._writer is not None:
            self._writer.put(event)

    @property
    def status(self) -> HistoryStatus:
        writer = self._writer
        if writer is None:
            return HistoryStatus(False, True, "", self._dropped, 0)
        return HistoryStatus(True, not writer.error, writer.error, self._dropped + writer.dropped, writer.bytes)

    async def series(
        self, pool: str, metric: str, members: Sequence[str], start: float, end: float, points: int
    ) -> HistorySeries:
        """Run ``HistoryReader.series`` in a thread. Data from the last few seconds may be missing."""
        if not self.path.exists():
            return HistorySeries(pool, metric, "raw", 1.0, (), {})
        read = HistoryReader(self.path, _breathe).series
        return await asyncio.to_thread(read, pool, metric, members, start, end, points)

    async def events(self, since: float = 0.0, limit: int = 1000, kind: str = "") -> list[LoggedEvent]:
        """Run ``HistoryReader.events`` in a thread."""
        return await asyncio.to_thread(HistoryReader(self.path).events, since, limit, kind)


class _HistoryWriter:
    """The writer thread and its queue. Each shared attribute is set by only one side: the event loop or the thread."""

    def __init__(
        self, path: Path, config: HistoryConfig, log: Callable[[str, int], None], commit_every: float, retry: float
    ) -> None:
        self.error = ""
        self.bytes = 0
        self._overflowed = self._lost = 0  # dropped by the event loop, and by the thread
        self._log, self._commit_every, self._retry = log, commit_every, retry
        self.recorder = HistoryRecorder(path, config, _breathe)
        self._waiting: deque[HistorySample | LoggedEvent] = deque()
        self._stopping = threading.Event()
        self._failed_at = -math.inf  # monotonic seconds of the last failure
        self._lost_before = 0  # number of items lost before the current failure
        # A daemon thread: a disk that hangs must not keep the program from ending
        self.thread = threading.Thread(target=self._run, name="history", daemon=True)

    def stop(self) -> None:
        """Wait up to STOP seconds for all data to be written. Do not call this method from the event loop."""
        self._stopping.set()
        self.thread.join(STOP)

    @property
    def dropped(self) -> int:
        return self._overflowed + self._lost

    def put(self, item: HistorySample | LoggedEvent) -> None:
        """Queue a sample or an event. If the queue is full, drop the item and count it as lost."""
        # No lock: both threads can use a deque's ends safely, and a length that is off by one does no harm
        size = item.size if isinstance(item, HistorySample) else 0
        if len(self._waiting) >= MAX_WAITING or len(self._waiting) * size > MAX_READINGS:
            self._overflowed += 1
        else:
            self._waiting.append(item)

    # The methods below run in the thread

    def _run(self) -> None:
        while not self._stopping.wait(self._commit_every):
            self._turn(self.recorder.commit)
        self._failed_at = -math.inf  # one last attempt, whatever failed before
        self._turn(self.recorder.finish)

    def _turn(self, commit: Callable[[], None]) -> None:
        """Write all queued items. Between a failure and the next attempt, keep events and drop samples."""
        resting = bool(self.error) and time.monotonic() < self._failed_at + self._retry
        try:
            for _ in range(len(self._waiting)):
                item = self._waiting.popleft()
                if isinstance(item, LoggedEvent):
                    self._lost += self.recorder.add_event(item)
                elif resting:
                    self._lost += 1
                else:
                    self.recorder.add_sample(item)
            if resting:
                return
            commit()
        except Exception as error:  # the thread must survive any error, and log it
            self._fail(error)
            return
        self.bytes = self.recorder.bytes
        if self.error:
            self.error = ""
            lost = self.dropped - self._lost_before
            self._log(f"{self.recorder.path}: recording resumed; {lost} samples and events were lost", logging.INFO)

    def _fail(self, error: Exception) -> None:
        before, self.error = self.error, _why(error)
        if not before:
            self._lost_before = self.dropped
        self._lost += self.recorder.abandon()
        self._failed_at = time.monotonic()
        path = self.recorder.path
        if isinstance(error, sqlite3.Error) and is_damage(error):
            try:
                aside = move_aside(path)
            except OSError as moving:
                self.error = f"{self.error}; cannot move the file away: {moving.strerror}"
            else:
                what = f"the file is damaged; it was moved to {aside.name}, and a new file was started"
                self._log(f"{path}: {self.error}: {what}", logging.ERROR)
                return
        if self.error != before:
            known = isinstance(error, LbdnsError)
            what = self.error if known else f"{path}: cannot write the history: {self.error}"
            self._log(f"{what}; recording is suspended until writing succeeds again", logging.WARNING)


def _breathe() -> None:
    """Sleep briefly, so that other threads can run."""
    time.sleep(BREATH)


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    known = isinstance(error, LbdnsError | sqlite3.Error)
    return str(error) if known else f"{type(error).__name__}: {error}"

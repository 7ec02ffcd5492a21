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
from lbdns.history.history_plots import HistoryPlots, PlotRequest, read_plots
from lbdns.history.history_reader import HistoryReader, HistorySeries
from lbdns.history.history_recorder import HistoryRecorder
from lbdns.history.history_sample import HistorySample
from lbdns.history.history_store import is_damage, move_aside
from lbdns_shared.errors import LbdnsError

COMMIT_EVERY: Final = 5.0  # s
RETRY: Final = 10.0  # s before writing is retried after a failure
STOP: Final = 10.0  # s to wait for the last commit
MAX_MEMBERS: Final = 2000  # members up to which a sample is taken every second; a sample of 2000 takes some 40 ms
MAX_WAITING: Final = 120  # queued samples; the thread takes them every few seconds unless it is stuck
#: Events that may wait for the disk, so that none is lost when all members of a large farm change at once; 45 MB
MAX_EVENTS: Final = 100_000
REPORT_LOSS: Final = 60.0  # s between log lines about lost data
MAX_READINGS: Final = 50_000  # members in all queued samples; some 50 MB
BREATH: Final = 0.0001  # s: enough for the event loop's thread to get the interpreter


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """The state of the history recording.

    ``dropped`` is the number of lost samples and events. ``bytes`` is the total size of the file and its write-ahead
    log.
    """

    on: bool
    ok: bool
    error: str
    dropped: int
    bytes: int


class LiveHistory:
    """The history that this program records. Each read runs in a separate thread.

    Call the methods only from the event loop.
    """

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
        """Start recording if the history is enabled.

        The file is opened later, so this method never raises an exception.
        """
        if self._config.on and self._writer is None:
            self._writer = self._new_writer()
            self._unsubscribe = self._events.subscribe(self.record_event)
            self._writer.thread.start()

    def _new_writer(self) -> _HistoryWriter:
        loop = asyncio.get_running_loop()

        def log(text: str, level: int) -> None:
            loop.call_soon_threadsafe(lambda: self._events.record("history", text, level=level, logger="lbdns.history"))

        return _HistoryWriter(self.path, self._config, log, self._commit_every, self._retry)

    async def stop(self) -> None:
        """Write all queued samples and events, and stop recording."""
        writer, self._writer = self._writer, None
        if self._unsubscribe:
            self._unsubscribe()
            self._unsubscribe = None
        if writer is not None:
            await self._end(writer)

    async def _end(self, writer: _HistoryWriter) -> None:
        before = writer.dropped
        self._dropped += before
        await asyncio.to_thread(writer.stop)
        self._dropped += writer.dropped - before

    async def reconfigure(self, config: HistoryConfig, path: Path | None = None) -> None:
        """Switch to a new configuration. If ``path`` is given, also switch to another file."""
        moved = path is not None and path != self.path
        if not config.on:
            await self.stop()
        self.path, self._config = path or self.path, config
        if self._writer is not None and moved:
            # The new writer takes what is recorded while the old one writes the rest
            old, self._writer = self._writer, self._new_writer()
            await self._end(old)
            self._writer.thread.start()
        elif self._writer is not None:
            self._writer.recorder.config = config
        await self.start()

    def needs_sample(self, members: int, now: float) -> bool:
        """Return whether a sample of ``members`` members at ``now`` (monotonic seconds) is due.

        Call this method once per second. Samples of a large farm are taken less often, because each takes more time.
        """
        pause = members / MAX_MEMBERS - 0.5  # 0.5: the caller's period is not exact
        return self._writer is not None and (pause <= 1 or now - self._last_taken >= pause)

    def record_sample(self, sample: HistorySample) -> None:
        """Queue a sample for writing. Each call takes about a microsecond."""
        if self._writer is not None:
            self._last_taken = sample.now
            self._writer.put_sample(sample)

    def record_event(self, event: LoggedEvent) -> None:
        """Queue an event for writing. ``start`` subscribes this method to the event log."""
        if self._writer is not None:
            self._writer.put_event(event)

    @property
    def status(self) -> HistoryStatus:
        writer = self._writer
        if writer is None:
            return HistoryStatus(False, True, "", self._dropped, 0)
        return HistoryStatus(True, not writer.error, writer.error, self._dropped + writer.dropped, writer.bytes)

    async def series(
        self, pool: str, metric: str, members: Sequence[str], start: float, end: float, points: int
    ) -> HistorySeries:
        """Run ``HistoryReader.series`` in a thread, and return the result.

        Data from the last few seconds may be missing.
        """
        if not self.path.exists():
            return HistorySeries(pool, metric, "raw", 1.0, (), {})
        read = HistoryReader(self.path, _breathe).series
        return await asyncio.to_thread(read, pool, metric, members, start, end, points)

    async def plots(self, wanted: PlotRequest) -> HistoryPlots:
        """Run ``read_plots`` in a thread, and return the result.

        Data from the last few seconds may be missing.
        """
        if not self.path.exists():
            return HistoryPlots(wanted.pool, "raw", 1.0, ())
        return await asyncio.to_thread(read_plots, self.path, wanted, _breathe)

    async def events(self, since: float = 0.0, limit: int = 1000, kind: str = "") -> list[LoggedEvent]:
        """Run ``HistoryReader.events`` in a thread, and return the result."""
        return await asyncio.to_thread(HistoryReader(self.path).events, since, limit, kind)


class _HistoryWriter:
    """A writer thread and its queue.

    Each shared attribute is set either only by the event loop or only by the thread.
    """

    def __init__(
        self, path: Path, config: HistoryConfig, log: Callable[[str, int], None], commit_every: float, retry: float
    ) -> None:
        self.error = ""
        self.bytes = 0
        self._lost_events = self._overflowed = 0  # events and samples that the event loop dropped
        self._lost_samples = 0  # samples that the thread dropped
        self._log, self._commit_every, self._retry = log, commit_every, retry
        self.recorder = HistoryRecorder(path, config, _breathe)
        self._samples: deque[HistorySample] = deque()
        self._new_events: deque[LoggedEvent] = deque()
        self._stopping = False
        self._wake = threading.Event()  # set when a sample arrives, or when the thread must stop
        self._failed_at = -math.inf  # monotonic seconds of the last failure
        self._reported = (0, 0)  # lost events and samples that the log contains
        self._reported_at = -math.inf  # monotonic seconds
        # A daemon thread: a disk that hangs must not keep the program from ending
        self.thread = threading.Thread(target=self._run, name="history", daemon=True)

    def stop(self) -> None:
        """Wait up to STOP seconds for all data to be written. Do not call this method from the event loop."""
        self._stopping = True
        self._wake.set()
        self.thread.join(STOP)

    @property
    def dropped(self) -> int:
        return sum(self._lost)

    @property
    def _lost(self) -> tuple[int, int]:
        return self._lost_events, self._overflowed + self._lost_samples

    # The next two methods need no locks: both threads can safely use the ends of a deque, and a briefly wrong length
    # does no harm

    def put_sample(self, sample: HistorySample) -> None:
        """Queue a sample. If the queue is full, drop the sample and count it as lost."""
        waiting = len(self._samples)
        if waiting >= MAX_WAITING or waiting * sample.size > MAX_READINGS:
            self._overflowed += 1
        else:
            self._samples.append(sample)
            self._wake.set()

    def put_event(self, event: LoggedEvent) -> None:
        """Queue an event. If too many events are unwritten, drop the event and count it as lost."""
        if len(self._new_events) + self.recorder.unwritten_events >= MAX_EVENTS:
            self._lost_events += 1
        else:
            self._new_events.append(event)

    # The methods below run in the thread

    def _run(self) -> None:
        due = time.monotonic() + self._commit_every
        while not self._stopping:
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()
            if time.monotonic() >= due:
                self._turn(self.recorder.commit)
                due = time.monotonic() + self._commit_every
            else:
                self._turn(None)
        self._failed_at = -math.inf  # one last attempt, whatever failed before
        self._turn(self.recorder.finish)

    def _turn(self, commit: Callable[[], None] | None) -> None:
        """Take all queued items, and write them if ``commit`` is given.

        Samples are taken at once, because a queued one keeps the readings of all members in memory. Between a failure
        and the next attempt, events are kept and samples are dropped.
        """
        resting = bool(self.error) and time.monotonic() < self._failed_at + self._retry
        try:
            for _ in range(len(self._new_events)):
                self.recorder.add_event(self._new_events.popleft())
            for _ in range(len(self._samples)):
                sample = self._samples.popleft()
                if resting:
                    self._lost_samples += 1
                else:
                    self.recorder.add_sample(sample)
                del sample
            if resting or commit is None:
                return
            commit()
        except Exception as error:  # the thread must survive any error, and log it
            self._fail(error)
            return
        self.bytes = self.recorder.bytes
        self._report_losses()
        self.error = ""

    def _report_losses(self) -> None:
        """Log that recording has resumed, with the numbers of samples and events lost since the last such line."""
        lost = self._lost
        events, samples = (now - before for now, before in zip(lost, self._reported, strict=True))
        due = self._stopping or time.monotonic() >= self._reported_at + REPORT_LOSS
        if not self.error and not (due and (events or samples)):
            return
        self._reported, self._reported_at = lost, time.monotonic()
        what = f"{events} events and {samples} samples were lost"
        if self.error:
            text, level = f"recording resumed; {what}: {self.error}", logging.INFO
        else:
            text, level = f"{what} because they arrived faster than they could be written", logging.WARNING
        self._log(f"{self.recorder.path}: {text}", level)

    def _fail(self, error: Exception) -> None:
        before, self.error = self.error, _why(error)
        self._lost_samples += self.recorder.abandon()
        self._failed_at = time.monotonic()
        path = self.recorder.path
        if isinstance(error, sqlite3.Error) and is_damage(error):
            try:
                aside = move_aside(path)
            except OSError as moving:
                self.error = f"{self.error}; the file cannot be moved aside: {moving.strerror}"
            else:
                what = f"it was moved to {aside.name}, and a new file was started"
                self._log(f"{path}: the file is damaged ({self.error}); {what}", logging.ERROR)
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

"""The history writer: a thread that writes queued samples and events to the history's file."""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lbdns.config.recording_sections import HistoryConfig
from lbdns.events.event_log import LoggedEvent
from lbdns.history.history_recorder import HistoryRecorder
from lbdns.history.history_sample import HistorySample
from lbdns.history.history_store import DamagedHistoryError, is_damage, move_aside
from lbdns_shared.errors import LbdnsError

MAX_WAITING: Final = 120  # samples and events; the thread takes them every few seconds unless it is stuck
MAX_READINGS: Final = 50_000  # members in all queued samples; some 50 MB
BREATH: Final = 0.0001  # s: enough for the event loop's thread to get the interpreter
STOP: Final = 10.0  # s for the last commit


class HistoryWriter:
    """The writing thread, and its queue. The event loop and the thread share attributes that only one of them sets."""

    def __init__(
        self, path: Path, config: HistoryConfig, log: Callable[[str, int], None], commit_every: float, retry: float
    ) -> None:
        self.error = ""
        self.bytes = 0
        self._overflowed = self._lost = 0  # dropped by the event loop, and by the thread
        self._log, self._commit_every, self._retry = log, commit_every, retry
        self._recorder = HistoryRecorder(path, config, breathe)
        self._waiting: deque[HistorySample | LoggedEvent] = deque()
        self._stopping = threading.Event()
        self._failed_at = -math.inf  # monotonic seconds of the last failure
        self._lost_before = 0  # what was lost before the current failure
        # A daemon thread: a disk that hangs must not keep the program from ending
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait until everything is written. Do not call it in the event loop."""
        self._stopping.set()
        self._thread.join(STOP)

    def configure(self, config: HistoryConfig) -> None:
        self._recorder.config = config

    @property
    def dropped(self) -> int:
        return self._overflowed + self._lost

    def put(self, item: HistorySample | LoggedEvent) -> None:
        # No lock: a deque's ends are safe to use from two threads, and being off by one does no harm
        """Queue a sample or an event; drop and count it if the queue is full."""
        size = item.size if isinstance(item, HistorySample) else 0
        if len(self._waiting) >= MAX_WAITING or len(self._waiting) * size > MAX_READINGS:
            self._overflowed += 1
        else:
            self._waiting.append(item)

    # The methods below run in the thread

    def _run(self) -> None:
        while not self._stopping.wait(self._commit_every):
            self._turn(self._recorder.commit)
        self._failed_at = -math.inf  # one last attempt, whatever failed before
        self._turn(self._recorder.finish)

    def _turn(self, commit: Callable[[], None]) -> None:
        """Write what waits. After a failure, events stay queued and samples are dropped."""
        resting = bool(self.error) and time.monotonic() < self._failed_at + self._retry
        try:
            self._take(not resting)
            if resting:
                return
            commit()
        except Exception as error:  # the thread must survive any error, and log it
            self._fail(error)
            return
        self.bytes = self._recorder.bytes
        if self.error:
            self.error = ""
            lost = self.dropped - self._lost_before
            self._log(f"{self._recorder.path}: recording again; {lost} samples and events were lost", logging.INFO)

    def _take(self, samples: bool) -> None:
        for _ in range(len(self._waiting)):
            item = self._waiting.popleft()
            if isinstance(item, LoggedEvent):
                self._lost += self._recorder.add_event(item)
            elif samples:
                self._recorder.add_sample(item)
            else:
                self._lost += 1

    def _fail(self, error: Exception) -> None:
        before, self.error = self.error, _why(error)
        if not before:
            self._lost_before = self.dropped
        self._lost += self._recorder.abandon()
        self._failed_at = time.monotonic()
        path = self._recorder.path
        if isinstance(error, DamagedHistoryError) or (isinstance(error, sqlite3.Error) and is_damage(error)):
            try:
                aside = move_aside(path)
            except OSError as moving:
                self.error = f"{self.error}; cannot move it away: {moving.strerror}"
            else:
                self._log(
                    f"{self.error}: the file is damaged; moved it to {aside.name} and started a new one", logging.ERROR
                )
                return
        if self.error != before:
            known = isinstance(error, LbdnsError)
            what = self.error if known else f"{path}: cannot write the history: {self.error}"
            self._log(f"{what}; recording stops until writing works again", logging.WARNING)


def breathe() -> None:
    """Sleep briefly, so that other threads get the interpreter."""
    time.sleep(BREATH)


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    known = isinstance(error, LbdnsError | sqlite3.Error)
    return str(error) if known else f"{type(error).__name__}: {error}"

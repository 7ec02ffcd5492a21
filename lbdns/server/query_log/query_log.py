"""The query log: a thread writes each sampled query to a file as a JSON line, so that logging never delays answers."""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from time import monotonic, thread_time
from typing import Final

from lbdns.config.recording_sections import QueryLogConfig
from lbdns.model.farm import Farm
from lbdns.process.duty_cycle import DutyCycle
from lbdns.server.query_log.query_line import LoggedQuery, MemberNames, line_of
from lbdns.server.query_log.query_sampler import QueryLogTap, Respond, RunDeferred

log = logging.getLogger("lbdns.server")

MAX_WAITING: Final = 10_000  # samples that may wait, a few megabytes; further samples are lost
PAUSE: Final = 0.05  # s between writes: waking the thread for every line costs more than writing the line
AT_ONCE: Final = 8  # lines per write, 0.3 ms of work: each write releases the interpreter's lock
WRITING: Final = DutyCycle(3.0)  # pause after writing: if every query is logged, lines are lost rather than answers
RETRY: Final = 5.0  # s between attempts to open a file that can't be written
MODE: Final = 0o640  # the log shows which client asked for which name
LAST: Final = 1.0  # s for the thread to write the waiting lines at the end


class QueryLog:
    """The query log of one process. Logging is off until ``use`` receives a configuration that enables it."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance = chance
        self._config = QueryLogConfig()
        self._overflowed = 0
        self._writer: _LogThread | None = None
        self._gone = 0  # lines that earlier threads lost

    @property
    def lost(self) -> int:
        """Return the number of samples lost because too many samples were queued or the file could not be written."""
        return self._overflowed + self._gone + (self._writer.unwritten if self._writer else 0)

    def use(self, farm: Farm) -> None:
        """Apply the farm's query log configuration. Also reopen the log file, because it may have been rotated."""
        self._config = farm.config.query_log
        if self._config.file is None:
            self.stop(0.0)
            return
        if self._writer is None:
            self._writer = _LogThread()
        self._writer.waiting.put(farm)

    def tap(self, respond: Respond, run_deferred: RunDeferred) -> QueryLogTap | None:
        """Return an object that samples one socket's queries, or None while the log is off."""
        if self._writer is None:
            return None
        return QueryLogTap(respond, run_deferred, self._config.sample, self._chance, self._take, self._lose)

    def _take(self, sample: LoggedQuery) -> None:
        if self._writer is None or self._writer.waiting.qsize() >= MAX_WAITING:
            self._overflowed += 1
        else:
            self._writer.waiting.put(sample)

    def _lose(self, count: int) -> None:
        self._overflowed += count

    def stop(self, patience: float = LAST) -> None:
        """Spend up to ``patience`` seconds writing the queued lines, and then end the thread."""
        if self._writer:
            self._writer.end(patience)
            self._gone += self._writer.unwritten
            self._writer = None


class _LogThread:
    """The thread that writes the log.

    Each item in the queue ``waiting`` is a sample, a farm or None. A farm in the queue applies to all later samples;
    None ends the thread.
    """

    def __init__(self) -> None:
        self.waiting: SimpleQueue[LoggedQuery | Farm | None] = SimpleQueue()
        self.unwritten = 0
        self._ending = threading.Event()
        self._members = MemberNames()
        self._file: _LogFile | None = None
        self._pid = os.getpid()
        # A daemon thread: a disk that hangs must not keep the server from exiting
        self._thread = threading.Thread(target=self._run, name="query log", daemon=True)
        self._thread.start()

    def end(self, patience: float) -> None:
        self._ending.set()
        self.waiting.put(None)
        self._thread.join(patience)

    def _run(self) -> None:
        samples: list[LoggedQuery] = []
        begin = thread_time()
        while True:
            item = self.waiting.get()
            if isinstance(item, LoggedQuery):
                samples.append(item)
            if samples and (len(samples) == AT_ONCE or not isinstance(item, LoggedQuery) or self.waiting.empty()):
                self._write(samples)
                samples = []
                self._ending.wait(WRITING.pause_after(thread_time() - begin))
                begin = thread_time()
            if item is None:
                break
            if isinstance(item, Farm):
                self._reopen(item)
            elif self.waiting.empty():
                self._ending.wait(PAUSE)
        if self._file:
            self._file.close()

    def _reopen(self, farm: Farm) -> None:
        self._members = MemberNames(farm)
        path = farm.config.query_log.file
        if self._file is not None and self._file.path == path:
            self._file.reopen()
            return
        if self._file:
            self._file.close()
        self._file = _LogFile(path) if path else None

    def _write(self, samples: Sequence[LoggedQuery]) -> None:
        if self._file is None or not self._file.is_ready():
            self.unwritten += len(samples)
            return
        try:
            lines = [line for sample in samples if (line := line_of(sample, self._members, self._pid))]
        except Exception:  # a bug costs these lines, not the log
            log.exception("query log: cannot format the sampled queries")
            self.unwritten += len(samples)
            return
        if lines:
            self.unwritten += len(lines) - self._file.append(lines)


class _LogFile:
    """A file to which several processes append lines.

    A message is logged when writes start to fail, and when they succeed again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._failed = False
        self._not_before = 0.0  # monotonic seconds
        self._torn = False  # the last line is incomplete

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def reopen(self) -> None:
        """Close the file. The next write reopens the file, even shortly after a failed attempt to open it."""
        self.close()
        self._not_before, self._torn = 0.0, False

    def is_ready(self) -> bool:
        """Open the file if necessary; return whether the file is open.

        After a failure, retry only every RETRY seconds.
        """
        if self._failed and monotonic() < self._not_before:
            return False
        if self._descriptor < 0:
            try:
                # NONBLOCK: opening a pipe without a reader fails instead of blocking
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
                self._descriptor = os.open(self.path, flags, MODE)
            except OSError as error:
                self._fail(error)
                return False
        return True

    def append(self, lines: Sequence[str]) -> int:
        """Write lines, if possible in one system call, and return the number of lines written."""
        data = ("\n" * self._torn + "".join(lines)).encode("ascii")
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            self._fail(error)
        else:
            if self._failed:
                self._failed = False
                log.info("query log: lines are written to %s again", self.path)
        had_torn, part = self._torn, data[:written]
        self._torn = not part.endswith(b"\n") if part else had_torn
        return max(0, part.count(b"\n") - had_torn)

    def _fail(self, error: OSError) -> None:
        self._not_before = monotonic() + RETRY
        if not self._failed:
            self._failed = True
            log.warning(
                "query log: %s: %s; sampled queries are lost, and counted, until the file can be written",
                self.path,
                error.strerror,
            )

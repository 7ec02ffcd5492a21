"""The query log: some of the queries, a JSON line each, written by a thread of its own that nobody waits for."""

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

from lbdns.config.query_log import QueryLogConfig
from lbdns.farm import Farm
from lbdns.server.net.query_line import MemberNames, Sample, line_of
from lbdns.server.net.query_watch import Respond, RunErrand, Sampler, Watch

log = logging.getLogger("lbdns.server")

MAX_WAITING: Final = 10_000  # samples, some megabytes; beyond, they are lost
PAUSE: Final = 0.05  # s between two looks at what waits: waking the writer for every line costs more than the line
AT_ONCE: Final = 8  # lines a write, 0.3 ms of work: with every write the interpreter's lock is let go
REST: Final = 3.0  # times the work, the rest after a write: whoever logs every query loses lines rather than answers
RETRY: Final = 5.0  # s between attempts at a file that can't be written
MODE: Final = 0o640  # it tells who asked for what
LAST: Final = 1.0  # s that the writer is given to end


class QueryLog:
    """Off until it is told to be on. Everything but the file is the affair of whoever holds the sockets."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance = chance
        self._config = QueryLogConfig()
        self._overflowed = 0
        self._writer: _Writer | None = None
        self._gone = 0  # lost by writers that have ended

    @property
    def lost(self) -> int:
        """Samples that were not written: too many waited, or the file couldn't take them."""
        return self._overflowed + self._gone + (self._writer.unwritten if self._writer else 0)

    def use(self, farm: Farm) -> None:
        """Log as this configuration says from now on; the file is opened anew, it may have been moved away."""
        self._config = farm.config.query_log
        if self._config.file is None:
            self._end(0.0)
            return
        if self._writer is None:
            self._writer = _Writer()
        self._writer.waiting.put(farm)

    def watch(self, respond: Respond, run_errand: RunErrand) -> Watch | None:
        """What takes the queries of one socket; None while the log is off."""
        if self._writer is None:
            return None
        return Watch(respond, run_errand, Sampler(self._config.sample, self._chance), self._take)

    def _take(self, sample: Sample) -> None:
        if self._writer is None or self._writer.waiting.qsize() >= MAX_WAITING:
            self._overflowed += 1
        else:
            self._writer.waiting.put(sample)

    def stop(self) -> None:
        """Write what waits, if that is possible soon."""
        self._end(LAST)

    def _end(self, patience: float) -> None:
        if self._writer:
            self._writer.end(patience)
            self._gone += self._writer.unwritten
            self._writer = None


class _Writer:
    """The thread. ``waiting`` holds samples, the farm from which they are from then on, and None for the end."""

    def __init__(self) -> None:
        self.waiting: SimpleQueue[Sample | Farm | None] = SimpleQueue()
        self.unwritten = 0
        self._ending = threading.Event()
        self._members = MemberNames()
        self._file: _File | None = None
        self._pid = os.getpid()
        # A daemon: a disk that hangs must not keep the server from ending
        self._thread = threading.Thread(target=self._run, name="query log", daemon=True)
        self._thread.start()

    def end(self, patience: float) -> None:
        self._ending.set()
        self.waiting.put(None)
        self._thread.join(patience)

    def _run(self) -> None:
        samples: list[Sample] = []
        begin = thread_time()
        while True:
            item = self.waiting.get()
            if isinstance(item, Sample):
                samples.append(item)
            if samples and (len(samples) == AT_ONCE or not isinstance(item, Sample) or self.waiting.empty()):
                self._write(samples)
                samples = []
                self._ending.wait(REST * (thread_time() - begin))
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
        self._file = _File(path) if path else None

    def _write(self, samples: Sequence[Sample]) -> None:
        if self._file is None or not self._file.is_ready():
            self.unwritten += len(samples)
            return
        try:
            lines = [line for sample in samples if (line := line_of(sample, self._members, self._pid))]
        except Exception:  # a mistake of ours costs these lines, not the log
            log.exception("query log: lines could not be made")
            self.unwritten += len(samples)
            return
        if lines:
            self.unwritten += len(lines) - self._file.append(lines)


class _File:
    """Lines at the end of a file, also while other processes add theirs. One log line when that fails, one when it
    works again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._failed = False
        self._not_before = 0.0  # monotonic seconds
        self._torn = False  # the last line stands there in part

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def reopen(self) -> None:
        """With the next line. What was wrong may have been mended, so it is tried at once."""
        self.close()
        self._not_before, self._torn = 0.0, False

    def is_ready(self) -> bool:
        """Whether it can be written to, as far as is known; opens it if it is time."""
        if self._failed and monotonic() < self._not_before:
            return False
        if self._descriptor < 0:
            try:
                # NONBLOCK: a pipe that nobody reads is an error, not a place to wait
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
                self._descriptor = os.open(self.path, flags, MODE)
            except OSError as error:
                self._fail(error)
                return False
        return True

    def append(self, lines: Sequence[str]) -> int:
        """How many of these are written, in one piece if the kernel takes them so."""
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
                log.info("query log: %s is written again", self.path)
        return self._count(data, written)

    def _count(self, data: bytes, written: int) -> int:
        """Whole lines of ``data`` that are written, and whether another one is in part."""
        had_torn, part = self._torn, data[:written]
        self._torn = not part.endswith(b"\n") if part else had_torn
        return max(0, part.count(b"\n") - had_torn)

    def _fail(self, error: OSError) -> None:
        self._not_before = monotonic() + RETRY
        if not self._failed:
            self._failed = True
            log.warning(
                "query log: %s: %s; until that is mended queries are counted as lost", self.path, error.strerror
            )

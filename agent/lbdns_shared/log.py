"""Logs events to standard error as text or JSON, one line per event, and suppresses floods of similar lines.

A thread writes the lines, so that logging never waits for the reader of standard error.

Under the systemd journal, lines begin with their priority (sd-daemon(3)) and omit the time, because the journal adds
it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from lbdns_shared.log_writer import LogWriter, QueuedStream

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
#: Logging level and priority (syslog(3)), the most severe first
_PRIORITIES: Final = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (0, 7))

WINDOW: Final = 60.0  # s
SIMILAR_LIMIT: Final = 10  # lines in a window
TRACEBACK_LIMIT: Final = 1  # similar tracebacks in a window: each has many lines, and clients may be able to cause them
KIND_LIMIT: Final = 200  # lines in a window, so that a pool of 200 members that all fall silent is logged in full


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if event := getattr(record, "event", None):
            about = {"kind": event.kind, "pool": event.pool, "member": event.member}
            line |= {key: value for key, value in about.items() if value}
        line |= {key: count for key in ("held", "lost") if (count := getattr(record, key, 0))}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    def __init__(self, with_time: bool) -> None:
        text = "%(levelname)-7s %(name)s: %(message)s"
        super().__init__(f"%(asctime)s {text}" if with_time else text, "%Y-%m-%dT%H:%M:%SZ")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        # Text from a peer must neither forge another line nor control the terminal
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(map(_printable, line))


class _JournalFormatter(logging.Formatter):
    """A formatter that adds the priority to every line of another formatter's output.

    The journal stores each line as a separate entry.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        priority = next(priority for lowest, priority in _PRIORITIES if record.levelno >= lowest)
        return "\n".join(f"<{priority}>{line}" for line in self._inner.format(record).split("\n"))


@dataclass
class _Window:
    end: float  # monotonic seconds
    written: int = 0
    suppressed: int = 0
    last: logging.LogRecord | None = None  # the last suppressed record


class LogSuppressor:
    """A filter that lets only a few of many similar records through, and counts those that it suppresses.

    Within one minute, up to ten similar log records are written. Another line then reports the number of suppressed
    records. Records are similar if they come from the same place in the program or are events about the same member.
    Records with tracebacks are similar if the exceptions have the same type and origin; of such records, only the first
    is written. Because a farm can have ten thousand members, there is also a limit for each kind of record (logger,
    level, kind of event). The limit for each kind bounds the logging rate and memory use, and prevents one kind of
    record from hiding other kinds.
    """

    def __init__(self) -> None:
        # In the order in which the windows end
        self._kinds: dict[Hashable, _Window] = {}
        self._similar: dict[Hashable, _Window] = {}

    def admits(self, record: logging.LogRecord, now: float) -> bool:
        """Return True if ``record`` must be written; otherwise, count ``record`` as suppressed and return False.

        Before each call of this method, call ``ended`` with the same ``now``.
        """
        event = getattr(record, "event", None)
        kind = record.name, record.levelno, event and event.kind
        origin = _origin(record)
        limit = TRACEBACK_LIMIT if origin else SIMILAR_LIMIT
        similar: Hashable = origin or ((event.pool, event.member) if event else str(record.msg))
        of_kind = self._kinds.get(kind)
        if of_kind is None:
            of_kind = self._kinds[kind] = _Window(now + WINDOW)
        of_similar = self._similar.get((kind, similar))
        if of_similar is None and of_kind.written < KIND_LIMIT:
            of_similar = self._similar[kind, similar] = _Window(now + WINDOW)
        window = of_kind if of_similar is None or of_kind.written >= KIND_LIMIT else of_similar
        if window is of_similar and window.written < limit:
            window.written += 1
            of_kind.written += 1
            return True
        window.suppressed += 1
        window.last = record
        return False

    def ended(self, now: float) -> Iterator[tuple[_Window, bool]]:
        """Yield each window that has ended and in which records were suppressed. The flag yielded with a window is True
        if the window's records are similar, or False if they are only of the same kind.

        Each window is yielded only once.
        """
        for windows, similar in ((self._similar, True), (self._kinds, False)):
            while windows and (first := next(iter(windows.items())))[1].end <= now:
                key, window = first
                del windows[key]
                if window.last is not None:
                    yield window, similar

    @property
    def next_end(self) -> float | None:
        """The time (monotonic seconds) at which the first window with suppressed records ends."""
        both = (*self._similar.values(), *self._kinds.values())
        return min((window.end for window in both if window.suppressed), default=None)


class _Handler(logging.Handler):
    """A handler that queues log records for writing, or suppresses them and later reports their number.

    When the first record after the window arrives, the number of suppressed records is written. If no further record
    arrives, a timer thread writes this number.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        replaced = sys.stderr.replaced if isinstance(sys.stderr, QueuedStream) else sys.stderr
        self._writer = LogWriter(replaced, self._describe_loss)
        # Python itself writes there too: uncaught exceptions, warnings, and errors while logging
        self.stream = QueuedStream(replaced, self._writer)
        self._clock = clock
        self._suppressor = LogSuppressor()
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        now = self._clock()
        self._report(now)
        if self._suppressor.admits(record, now):
            self._write(record)
        elif self._timer is None or not self._timer.is_alive():  # a fork copies the timer but not its thread
            self._start_timer(now)

    def close(self) -> None:
        """Report any suppressed records that have not been reported yet, and wait a limited time for all lines to be
        written."""
        self.acquire()
        try:
            if self._timer:
                self._timer.cancel()
                self._timer = None
            self._report(float("inf"))
        finally:
            self.release()
        self.finish()
        super().close()

    def finish(self) -> None:
        """Wait a limited time for all lines to be written. Python then writes to standard error itself."""
        self.stream.flush()
        self._writer.close()
        if sys.stderr is self.stream:
            sys.stderr = self.stream.replaced

    def _report_later(self) -> None:
        self.acquire()
        try:
            self._timer = None
            now = self._clock()
            self._report(now)
            self._start_timer(now)
        finally:
            self.release()

    def _start_timer(self, now: float) -> None:
        if (end := self._suppressor.next_end) is not None:
            self._timer = threading.Timer(max(0.0, end - now), self._report_later)
            self._timer.daemon = True
            self._timer.start()

    def _report(self, now: float) -> None:
        for window, similar in self._suppressor.ended(now):
            self._write(_summary(window, similar))

    def _write(self, record: logging.LogRecord) -> None:
        try:
            self._writer.put(self.format(record))
        except Exception:  # a mistake in a call of a logger costs one line
            self.handleError(record)

    def _describe_loss(self, count: int, reason: str) -> str:
        what = {"name": "lbdns.log", "levelno": logging.WARNING, "levelname": "WARNING", "lost": count}
        lines = "1 log line was" if count == 1 else f"{count} log lines were"
        return self.format(logging.makeLogRecord({**what, "msg": f"{lines} lost: {reason}"}))


def _origin(record: logging.LogRecord) -> Hashable:
    """Return the type of the record's exception and the place where it was raised, or None if there is no exception."""
    if not isinstance(record.exc_info, tuple) or record.exc_info[0] is None:
        return None
    kind, _, at = record.exc_info
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return kind, at and (at.tb_frame.f_code.co_filename, at.tb_lineno)


def _summary(window: _Window, similar: bool) -> logging.LogRecord:
    last = window.last
    assert last is not None
    record = logging.makeLogRecord({"name": last.name, "levelno": last.levelno, "levelname": last.levelname})
    what = "like this" if similar else "of this kind"
    record.msg = f"{window.suppressed} more {what} in the last {WINDOW:g} s; the last one: {last.getMessage()}"
    record.held = window.suppressed
    if event := getattr(last, "event", None):
        record.event = event
    return record


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _is_journal() -> bool:
    """Return whether standard error is connected to the journal, according to JOURNAL_STREAM (systemd.exec(5))."""
    try:
        status = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def finish() -> None:
    """Write the waiting lines within a limited time. Each program calls this function once, when it ends."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Handler):
            handler.finish()


def _open_standard_streams() -> None:
    """Open /dev/null for each standard stream that is closed, so that no other file gets the stream's descriptor."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number


def set_up(log_format: str = "text", level: str = "info") -> None:
    """Set up logging to standard error. Each program calls this function once, from its command-line module."""
    _open_standard_streams()
    if sys.stderr is None:  # it was closed when Python started
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # as long as the process
    journal = _is_journal()
    formatter = _JsonFormatter() if log_format == "json" else _TextFormatter(with_time=not journal)
    handler = _Handler()
    handler.setFormatter(_JournalFormatter(formatter) if journal else formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    sys.stderr = handler.stream

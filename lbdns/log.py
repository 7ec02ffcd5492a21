"""Logging for every program: one line an event on standard error, as text or as JSON; many alike become one.

Where standard error is the journal, lines begin with their priority (sd-daemon(3)), and the journal has the time.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from lbdns.log_flood import WINDOW, Flood, Held

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
_STDERR: Final = 2
#: As syslog(3) counts them, from the worst
_PRIORITIES: Final = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG: Final = 7


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
        if held := getattr(record, "held", 0):
            line["held"] = held
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    def __init__(self, with_time: bool) -> None:
        text = "%(levelname)-7s %(name)s: %(message)s"
        super().__init__(f"%(asctime)s {text}" if with_time else text, "%Y-%m-%dT%H:%M:%SZ")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        # One line an event: what a peer sent must not be able to forge another, nor to steer the terminal
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(map(_printable, line))


class _JournalFormatter(logging.Formatter):
    """Another formatter's lines with their priority; a traceback's too, since the journal takes each for itself."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{_priority(record.levelno)}>"
        return "\n".join(prefix + line for line in self._inner.format(record).split("\n"))


class _Handler(logging.StreamHandler[Any]):
    """Writes lines, or holds them back and says so when their time is over: in the next line's turn, or, if none comes,
    in a thread that is there for as long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(sys.stderr)
        self._clock = clock
        self._flood: Flood[logging.LogRecord] = Flood()
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        now = self._clock()
        self._tell(now)
        event = getattr(record, "event", None)
        sort = record.name, record.levelno, event and event.kind
        alike = (event.pool, event.member) if event else str(record.msg)
        if self._flood.admits(record, alike, sort, now):
            super().emit(record)
        elif self._timer is None or not self._timer.is_alive():  # a fork copies the timer, and not its thread
            self._wait(now)

    def close(self) -> None:
        """Say what has not been said yet."""
        self.acquire()
        try:
            if self._timer:
                self._timer.cancel()
                self._timer = None
            self._tell(float("inf"))
        finally:
            self.release()
        super().close()

    def _tell_later(self) -> None:
        self.acquire()
        try:
            self._timer = None
            now = self._clock()
            self._tell(now)
            self._wait(now)
        finally:
            self.release()

    def _wait(self, now: float) -> None:
        """Have it said when the time of what is held back is over, if anything is."""
        if (end := self._flood.next_end) is not None:
            self._timer = threading.Timer(max(0.0, end - now), self._tell_later)
            self._timer.daemon = True
            self._timer.start()

    def _tell(self, now: float) -> None:
        for held in self._flood.over(now):
            super().emit(_summary(held))


def _summary(held: Held[logging.LogRecord]) -> logging.LogRecord:
    """The record that stands for those held back."""
    last = held.last
    record = logging.makeLogRecord({"name": last.name, "levelno": last.levelno, "levelname": last.levelname})
    what = "like this" if held.alike else "of this kind"
    record.msg = f"{held.count} more {what} in the last {WINDOW:g} s, the last one: {last.getMessage()}"
    record.held = held.count
    if event := getattr(last, "event", None):
        record.event = event
    return record


def _priority(level: int) -> int:
    return next((priority for least, priority in _PRIORITIES if level >= least), _DEBUG)


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _is_journal() -> bool:
    """Whether standard error is connected to the journal, by what systemd says of it (systemd.exec(5))."""
    try:
        status = os.fstat(_STDERR)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def set_up(log_format: str = "text", level: str = "info") -> None:
    """Send the records of this process to standard error. Called once, by a program's command line."""
    journal = _is_journal()
    formatter = _JsonFormatter() if log_format == "json" else _TextFormatter(with_time=not journal)
    handler = _Handler()
    handler.setFormatter(_JournalFormatter(formatter) if journal else formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)

"""The recorder's main loop: takes rows from the sources at fixed intervals, and writes them until a signal arrives."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from lbdns_agent.agent_loop import STOP, ReportSchedule, SignalPipe
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.recorder.csv_file import CsvFile, FileInUseError
from lbdns_agent.recorder.table_writer import TableWriter
from lbdns_shared.errors import ConfigError, LbdnsError

#: Errors that end when the disk has room again; a recorder may also start meanwhile
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

log = logging.getLogger("lbdns.recorder")


class RowSource(Protocol):
    """A source of rows. ``take`` returns a header and rows, whose times are read from ``clock``."""

    def take(self, clock: Callable[[], float]) -> tuple[str, list[str]]: ...


@dataclass(frozen=True)
class RecordedTable:
    """A source of rows and the file to which they are appended."""

    source: RowSource
    file: CsvFile


def record_once(tables: Sequence[RecordedTable], clock: Callable[[], float] = time.time) -> None:
    """Append the current rows of every table. Raises LbdnsError if a row can't be read or written."""
    failures = []
    for table in tables:
        header, rows = table.source.take(clock)
        try:
            if rows:
                table.file.append(header, rows)
        except OSError as error:
            failures.append(f"{table.file.path}: {error.strerror or error}")
        finally:
            table.file.close()
    if failures:
        raise LbdnsError("; ".join(failures))


def open_files(tables: Sequence[RecordedTable]) -> None:
    """Open the file of every table, so that a mistake is reported at startup.

    Raises ConfigError if a file can't be opened, and LbdnsError if another recorder is writing to it. A full disk is
    not an error.
    """
    for table in tables:
        try:
            table.file.open()
        except FileInUseError as error:
            raise LbdnsError(f"{table.file.path}: {error.strerror}") from None
        except OSError as error:
            if error.errno not in FULL:
                raise ConfigError(f"{table.file.path}: {error.strerror or error}") from None


def log_start(files: Sequence[Path], interval: float) -> None:
    """Log the interval, and the files to which the recorder writes."""
    log.info("recording every %g s to %s", interval, ", ".join(map(str, files)))


class Recorder:
    """A recorder that writes the rows of ``tables`` every ``interval`` seconds until a signal stops it."""

    def __init__(
        self,
        tables: Sequence[RecordedTable],
        interval: float,
        signals: SignalPipe,
        tasks: SensorTasks,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._writers = [(table.source, TableWriter(table.file)) for table in tables]
        self._interval = interval
        self._signals = signals
        self._tasks = tasks
        self._clock = clock

    def run(self, first: float) -> int:
        """Write rows, the first at ``first`` (monotonic seconds), until a signal arrives.

        Return the exit status.
        """
        schedule = ReportSchedule(first, self._interval)
        due = first
        while not (self._tasks.wait(due) and self._is_stopped()):
            now = time.monotonic()
            if now < due:  # a signal that doesn't stop the recorder
                continue
            for source, writer in self._writers:
                writer.write(*source.take(self._clock))
            due = schedule.next_report(time.monotonic())
        for _, writer in self._writers:
            writer.close()
        log.info("stopped")
        return 0

    def _is_stopped(self) -> bool:
        return any(number in STOP for number in self._signals.take())

"""Reads the CSV files that the recorder writes, including those in the format of the 2014 study."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final, NamedTuple

from lbdns_agent.recorder.disk_table import HEADER_2014, LBDNS
from lbdns_agent.recorder.diskstats import CLASSIC
from lbdns_shared.errors import ConfigError
from lbdns_shared.metric_catalogue import CATALOGUE

LATEST: Final = 2**33  # Unix seconds: the year 2242
LIMIT: Final = 2**64  # counters have at most 64 bits
_COUNTERS_AT: Final = 4  # fields before the counters: time, major number, minor number and device
_DISK_COLUMNS: Final = LBDNS.header(CLASSIC).split(",")
_DISK_COLUMNS_2014: Final = HEADER_2014.split(",")


class CounterRow(NamedTuple):
    """A device's counters at one time (Unix seconds), in the order of ``diskstats.COUNTERS``."""

    time: float
    counters: tuple[int, ...]


@dataclass
class RecordedRows:
    """The rows of one or more files.

    ``disks`` maps each device to its rows. ``metrics`` maps each metric to pairs of a time (Unix seconds) and a value,
    which is NaN if the metric was missing. ``skipped`` counts malformed rows. ``zone`` is the time zone of the first
    row's time, or None if that time has none.
    """

    disks: dict[str, list[CounterRow]] = field(default_factory=dict)
    metrics: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    skipped: int = 0
    zone: tzinfo | None = None
    first: float = math.inf  # Unix seconds

    def add(self, later: RecordedRows) -> None:
        """Append the rows of ``later``, a file that begins after this file."""
        for device, rows in later.disks.items():
            self.disks.setdefault(device, []).extend(rows)
        for metric, values in later.metrics.items():
            self.metrics.setdefault(metric, []).extend(values)
        self.skipped += later.skipped
        if math.isinf(self.first):
            self.first, self.zone = later.first, later.zone


def read_files(paths: Sequence[Path]) -> RecordedRows:
    """Return the rows of all files, in the order of the files' first rows.

    Raises ConfigError if a file can't be read or is not a recorded file.
    """
    found = RecordedRows()
    for rows in sorted(map(read_file, paths), key=lambda rows: rows.first):
        found.add(rows)
    return found


def read_file(path: Path) -> RecordedRows:
    """Return the rows of one file. Raises ConfigError if it can't be read or is not a recorded file."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            return parse(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse(lines: Iterable[str]) -> RecordedRows:
    """Return the rows of a file. Malformed rows are counted and skipped. Raises ValueError if the header is unknown."""
    found = RecordedRows()
    rows = csv.reader(_without_nul(lines, found), strict=True)
    header = _next(rows, found) or []
    is_disks = header[: len(_DISK_COLUMNS)] == _DISK_COLUMNS or header == _DISK_COLUMNS_2014
    if not is_disks and not (header[:1] == ["time"] and not CATALOGUE.keys().isdisjoint(header[1:])):
        raise ValueError(
            "not a recorded file: its first line must be the header that 'lbdns-agent record' writes, such as "
            f"'{','.join(_DISK_COLUMNS[:6])},...' or 'time,run_queue,...'"
        )
    add = _add_disk_row if is_disks else _add_metrics_row
    while (row := _next(rows, found)) is not None:
        try:
            if len(row) != len(header):
                raise ValueError("the row must have as many fields as the header")
            time = datetime.fromisoformat(row[0])
            seconds = time.timestamp()
            if not 0 <= seconds < LATEST:
                raise ValueError("the time must be in the years 1970 to 2241")
            add(found, header, row, seconds)
        except (ValueError, OverflowError, OSError):  # the last two: a year that the system's clock doesn't have
            found.skipped += 1
            continue
        if math.isinf(found.first):
            found.first, found.zone = seconds, time.tzinfo
    return found


def _without_nul(lines: Iterable[str], found: RecordedRows) -> Iterator[str]:
    """Yield the lines without NUL characters. Lines with NUL characters, which may remain after a power failure, count
    as malformed."""
    for line in lines:
        if "\0" in line:
            found.skipped += 1
        else:
            yield line


def _next(rows: Iterator[list[str]], found: RecordedRows) -> list[str] | None:
    while True:
        try:
            return next(rows, None)
        except csv.Error:
            found.skipped += 1


def _add_disk_row(found: RecordedRows, header: Sequence[str], row: Sequence[str], time: float) -> None:
    # Empty fields at the end: other devices in the same file have more counters
    counters = tuple(int(text) for text in row[_COUNTERS_AT:] if text)
    if len(counters) < CLASSIC or max(counters) >= LIMIT or min(counters) <= -LIMIT:
        raise ValueError("a device must have at least 11 counters of at most 64 bits")
    found.disks.setdefault(row[3], []).append(CounterRow(time, counters))


def _add_metrics_row(found: RecordedRows, header: Sequence[str], row: Sequence[str], time: float) -> None:
    values = [float(text) if text else math.nan for text in row[1:]]
    if any(text and not math.isfinite(value) for text, value in zip(row[1:], values)):
        raise ValueError("a metric must be a finite number")
    for metric, value in zip(header[1:], values):
        found.metrics.setdefault(metric, []).append((time, value))

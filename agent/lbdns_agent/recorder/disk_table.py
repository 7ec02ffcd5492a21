"""Formats disk counters as a CSV table in this program's format or in that of the 2014 study. Pure.

docs/background/study.md repeats the 2014 study, whose recorder wrote the 14 fields that /proc/diskstats had at the
time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lbdns_agent.recorder.diskstats import CLASSIC, DiskCounterLine, counter_names

#: The spelling is that of the study
HEADER_2014: Final = (
    "datetime,major_number,minor_number,device_name,"
    "read_completed_successfully,reads_merged,sectors_read,time_spent_reading(ms),"
    "writes_completed,writes_merged,sectors_written,time_spent_writing_(ms),"
    "IO_currently_in_progress,time_spent_doing_IO_(ms),weighted_time_spent_doing_IO"
)
LONGEST_NAME: Final = 200  # bytes of a file name; file systems allow 255, and a rotated file has a longer name


@dataclass(frozen=True)
class DiskFormat:
    """A table format, defined by four functions that return text.

    ``file_name`` is called with the devices to record; an empty sequence means all devices. ``time`` is called with
    Unix seconds. ``header`` is called with the number of counters in each row. ``row`` is called with the time, a
    device's line and the number of counters.
    """

    file_name: Callable[[Sequence[str]], str]
    time: Callable[[float], str]
    header: Callable[[int], str]
    row: Callable[[str, DiskCounterLine, int], str]

    def table(self, now: float, lines: Sequence[DiskCounterLine]) -> tuple[str, list[str]]:
        """Return the header, and a row for each of the ``lines``, which were read at ``now`` (Unix seconds)."""
        count = max((len(line.counters) for line in lines), default=CLASSIC)
        time = self.time(now)
        return self.header(count), [self.row(time, line, count) for line in lines]


def time_with_zone(now: float) -> str:
    """Return a time in ISO 8601 format, in the local time zone and with its offset from UTC."""
    return datetime.fromtimestamp(now).astimezone().isoformat(timespec="microseconds")


def file_name(base: str, names: Sequence[str]) -> str:
    """Return the name of a file that contains ``names``: ``base.csv`` or ``base_A_B.csv``.

    Raises ValueError if the file name would be too long.
    """
    # Some drivers name devices like cciss/c0d0; sysfs writes ! instead of the slash, too
    found = "_".join([base, *names]).replace("/", "!") + ".csv"
    if len(found.encode()) > LONGEST_NAME:
        raise ValueError(f"{len(names)} names don't fit into a file name; record fewer, or record 'all'")
    return found


def _file_name(devices: Sequence[str]) -> str:
    return file_name("diskstats", devices)


def _header(count: int) -> str:
    return ",".join(["time", "major", "minor", "device", *counter_names(count)])


def _row(time: str, line: DiskCounterLine, count: int) -> str:
    empty = [""] * (count - len(line.counters))
    return ",".join([time, str(line.major), str(line.minor), quoted(line.name), *map(str, line.counters), *empty])


def _file_name_2014(devices: Sequence[str]) -> str:
    return file_name("mon", devices) if len(devices) == 1 else file_name("mon_diskstats", devices)


def _time_2014(now: float) -> str:
    return datetime.fromtimestamp(now).isoformat(timespec="microseconds")


def _header_2014(count: int) -> str:
    return HEADER_2014


def _row_2014(time: str, line: DiskCounterLine, count: int) -> str:
    return _row(time, DiskCounterLine(line.major, line.minor, line.name, line.counters[:CLASSIC]), CLASSIC)


def quoted(text: str) -> str:
    """Return ``text`` as a CSV field (RFC 4180), in quotes if necessary."""
    return '"' + text.replace('"', '""') + '"' if any(character in text for character in ',"\r\n') else text


LBDNS: Final = DiskFormat(_file_name, time_with_zone, _header, _row)
STUDY_2014: Final = DiskFormat(_file_name_2014, _time_2014, _header_2014, _row_2014)
FORMATS: Final[Mapping[str, DiskFormat]] = {"lbdns": LBDNS, "2014": STUDY_2014}

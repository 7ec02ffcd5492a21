"""Parses /proc/diskstats (admin-guide/iostats.rst): the counters of each device since boot. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: The counters in the kernel's order. A sector has 512 bytes, whatever the device's own block size is. ``in_progress``
#: is the only one that can decrease; ``weighted_ms`` is the sum of ``in_progress`` over time, in ms.
COUNTERS: Final = (
    "reads", "reads_merged", "sectors_read", "read_ms",
    "writes", "writes_merged", "sectors_written", "write_ms",
    "in_progress", "busy_ms", "weighted_ms",
    "discards", "discards_merged", "sectors_discarded", "discard_ms",  # since Linux 4.18
    "flushes", "flush_ms",  # since Linux 5.5
)  # fmt: skip
CLASSIC: Final = 11  # counters of each device before Linux 4.18
SECTOR: Final = 512  # bytes
_BEFORE: Final = 3  # fields before the counters: major number, minor number and name


@dataclass(frozen=True)
class DiskCounterLine:
    """One line of /proc/diskstats. A kernel newer than this program may have more counters than ``COUNTERS``."""

    major: int
    minor: int
    name: str
    counters: tuple[int, ...]


def counter_names(count: int) -> list[str]:
    """Return the names of the first ``count`` counters.

    A counter that this program does not know is named after its position in the kernel's line, such as ``field_21``.
    """
    unknown = range(len(COUNTERS) + _BEFORE + 1, count + _BEFORE + 1)
    return [*COUNTERS[:count], *(f"field_{position}" for position in unknown)]


def parse(text: bytes) -> Mapping[str, DiskCounterLine]:
    """Return a map from each device's name to its line, in the kernel's order.

    Lines with fewer than 14 fields are ignored: before Linux 2.6.25, partitions had only four counters, which count
    different things.

    Raises ValueError if a field is not an integer.
    """
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= _BEFORE + CLASSIC:
            major, minor, *counters = map(int, (*fields[:2], *fields[_BEFORE:]))
            name = fields[2].decode("utf-8", "replace")
            found[name] = DiskCounterLine(major, minor, name, tuple(counters))
    return found

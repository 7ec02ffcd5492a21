"""Decides when a recorded file is rotated, and names the rotated file. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

DAY: Final = "day"
_UNITS: Final = {"k": 2**10, "M": 2**20, "G": 2**30}
_SIZE: Final = re.compile(r"([0-9]{1,12})([kMG])")
SMALLEST: Final = 4 * 2**10  # bytes; with a smaller limit, a directory would soon contain thousands of files


@dataclass(frozen=True)
class Rotation:
    """When to rotate: before a file exceeds ``max_bytes`` (0: no limit), or, if ``daily``, when a new day begins."""

    max_bytes: int = 0
    daily: bool = False

    def is_due(self, size: int, added: int, first_time: str, now: str) -> bool:
        """Return whether to rotate a file of ``size`` bytes before ``added`` bytes are appended.

        ``first_time`` is the time in the file's first row, and ``now`` is the time in the new rows. Both are in ISO
        8601 format.
        """
        if self.max_bytes and size + added > self.max_bytes:
            return True
        # After the clock has been set back, the day of the first row is not over
        return self.daily and now[:10] > first_time[:10]


def parse_rotation(text: str) -> Rotation:
    """Parse the argument of ``--rotate``: ``day``, or a size such as ``10M``. Raises ValueError."""
    if text == DAY:
        return Rotation(daily=True)
    match = _SIZE.fullmatch(text)
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if size < SMALLEST:
        raise ValueError(f"must be 'day' or a size of at least 4k, such as 500k, 10M or 1G, not {text!r}")
    return Rotation(max_bytes=size)


def rotated_name(name: str, first_time: str, number: int) -> str:
    """Return the name of the rotated file: ``diskstats.csv`` becomes ``diskstats.2026-03-01T000000.csv``.

    The time is that of the file's first row. If ``number`` is above 1, it is part of the name, because several files
    may begin in the same second. Raises ValueError if ``first_time`` is not in ISO 8601 format.
    """
    stem, dot, ending = name.rpartition(".")
    time = datetime.fromisoformat(first_time).strftime("%Y-%m-%dT%H%M%S")
    return f"{stem}.{time}{f'-{number}' if number > 1 else ''}{dot}{ending}"

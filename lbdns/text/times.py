"""Parses and formats durations (``90s``, ``1d12h``) and times (Unix seconds, ISO 8601, ``now``, ``-2h``)."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final

_UNITS: Final = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(min|[smhdw])\s*")
LONGEST: Final = 10 * 366 * 86_400.0  # s; a longer duration is most likely a mistake
DURATION_HINT: Final = "write a duration such as 90s, 15min, 2h, 1d or 1d12h"
TIME_HINT: Final = "write Unix seconds, a time such as 2026-03-01T14:30 (UTC) or 2026-03-01T14:30+01:00, now, or -2h"


def parse_duration(text: str) -> float:
    """Parse a duration (greater than 0), and return the number of seconds. Raises ValueError."""
    at, seconds = 0, 0.0
    text = text.strip().lower()
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(f"{text!r} is not a valid duration; {DURATION_HINT}")
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"{text!r} must be more than 0 s and at most ten years; {DURATION_HINT}")
    return seconds


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as ``1d12h``. Smaller units are dropped."""
    rest = max(0, round(seconds))
    found = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            found.append(f"{count}{unit}")
    return "".join(found[:2]) or "0s"


def parse_time(text: str, now: float) -> float:
    """Parse a time, and return the Unix time. ``now`` is the current Unix time. Raises ValueError."""
    text = text.strip()
    if text == "now":
        return now
    try:
        seconds = float(text)
    except ValueError:
        return _other(text, now)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{text!r} is not a valid time; {TIME_HINT}")
    return seconds


def _other(text: str, now: float) -> float:
    try:
        if text.startswith("-"):
            return now - parse_duration(text[1:])
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a valid time; {TIME_HINT}") from None


def format_time(seconds: float) -> str:
    """Return a time in UTC, in the format of the log."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""Parse and format points in time: Unix seconds, ISO 8601, ``now``, or a time before now such as ``-2h``. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from lbdns.text.duration import parse_duration

HOW: Final = "write Unix seconds, a time such as 2026-03-01T14:30 (UTC) or 2026-03-01T14:30+01:00, now, or -2h"


def parse_time(text: str, now: float) -> float:
    """Return a point in time in Unix seconds; ``now`` is the present. Raises ValueError."""
    text = text.strip()
    if text == "now":
        return now
    try:
        seconds = float(text)
    except ValueError:
        return _other(text, now)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{text!r} is not a valid time; {HOW}")
    return seconds


def _other(text: str, now: float) -> float:
    try:
        if text.startswith("-"):
            return now - parse_duration(text[1:])
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a valid time; {HOW}") from None


def format_time(seconds: float) -> str:
    """Return a point in time in the format of log lines, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

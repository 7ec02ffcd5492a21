"""Parse and format durations such as ``90s``, ``2h`` and ``1d12h``. Pure."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(min|[smhdw])\s*")
LONGEST: Final = 10 * 366 * 86_400.0  # s; a longer duration is most likely a mistake
HOW: Final = "write a duration such as 90s, 15min, 2h, 1d or 1d12h"


def parse_duration(text: str) -> float:
    """Return a duration in seconds, above 0. Raises ValueError."""
    at, seconds = 0, 0.0
    text = text.strip().lower()
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(f"{text!r} is not a valid duration; {HOW}")
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"{text!r} must be more than 0 and at most ten years; {HOW}")
    return seconds


def format_duration(seconds: float) -> str:
    """Return ``seconds``, rounded, in its two largest units, such as ``1d12h``."""
    rest = max(0, round(seconds))
    found = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            found.append(f"{count}{unit}")
    return "".join(found[:2]) or "0s"

"""Compares the output of a command with the output that a page shows: the words must match, the figures may differ."""

from __future__ import annotations

import re
from typing import Final

MEMBERS: Final = ("gandalf", "frodo", "bilbo")
#: Parts of a line that may differ, in the order in which they are replaced: the part, and its placeholder
_VARIABLE: Final = (
    (r"\([^()]*\)", "()"),
    (r"\bleft=\S+ ", ""),  # explanations contain it only while a processor is shared
    (r"=[^\s\"]+", "=VALUE"),
    (rf"\b({'|'.join(MEMBERS)})\b", "MEMBER"),
    (r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?|\b\d\d:\d\d(:\d\d)?\b", "TIME"),
    (r"[-+]?\d[\d.,:]*( ?(d|h|min|ms|s)\b)?", "N"),
    (r"N+", "N"),
    (r"[─-]{2,}", "-"),
    (r"\s+", " "),
)


def shape(line: str) -> str:
    """Return a line with placeholders in place of figures, values, times, members and remarks in brackets."""
    for pattern, placeholder in _VARIABLE:
        line = re.sub(pattern, placeholder, line)
    return line.strip()


def missing_lines(shown: str, printed: str) -> list[str]:
    """Return the lines that a page shows and whose shape the output lacks. A line ``...`` stands for other lines."""
    shapes = {shape(line) for line in printed.splitlines()}
    return [line for line in shown.splitlines() if line.strip() not in ("", "...") and shape(line) not in shapes]

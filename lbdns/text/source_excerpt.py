"""Quotes the source line to which an error message refers, and marks the error. Pure."""

from __future__ import annotations

import re
from typing import Final

WIDTH: Final = 100  # longest part of a source line that is shown
BEFORE: Final = 40  # characters before the mark that are shown of a longer line
_QUOTED: Final = re.compile(r"'((?:[^'\\]|\\.)+)'")
_COLUMN: Final = re.compile(r"\(column (\d+)\)")
_KEY: Final = re.compile(r"(?:\[[^\]]*\] )?([\w.-]+): ")
_SECRET: Final = re.compile(r"\bsecret\b[\"']?\s*=")


def excerpt(number: int, line: str, message: str) -> str:
    """Return two lines: the source line with its number, and a line with carets below the error.

    ``message`` is the error message without FILE:LINE. The result is empty if the line is blank or contains a secret.
    """
    if not line.strip() or _SECRET.search(line):
        return ""
    shown = "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in line.rstrip())
    start, end = marked_span(shown, message)
    if len(shown) > WIDTH:
        cut = max(0, start - BEFORE)
        head = "..." if cut else ""
        tail = "..." if len(shown) > cut + WIDTH else ""
        shown = head + shown[cut : cut + WIDTH] + tail
        start, end = start - cut + len(head), min(end - cut, WIDTH) + len(head)
    margin = f"{number:>6}"
    return f"{margin} | {shown}\n{' ' * len(margin)} | {' ' * start}{'^' * max(1, end - start)}"


def marked_span(line: str, message: str) -> tuple[int, int]:
    """Return the start and end of the part of ``line`` that the error ``message`` refers to.

    If the message mentions a column or quotes a word, the part is that column or word. Otherwise, the part is the value
    of the key that the message names. If there is no key either, the part is the whole line.
    """
    if column := _COLUMN.search(message):
        at = min(int(column[1]) - 1, len(line))
        return at, at + 1
    key = _KEY.match(message)
    found = re.search(rf"[\"']?\b{re.escape(key[1])}\b[\"']?\s*=\s*(.*?)\s*(?:\s#.*)?$", line) if key else None
    if found and "unknown key" in message:
        begin = line.index(key[1], found.start()) if key else 0
        return begin, begin + len(key[1] if key else "")
    for word in _QUOTED.findall(message.partition(". Perhaps you meant")[0]):
        at = line.lower().find(word.lower())
        if at >= 0:
            return at, at + len(word)
    if found and found[1]:
        return found.span(1)
    return len(line) - len(line.lstrip()), len(line)

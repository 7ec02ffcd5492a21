"""Suppresses log lines when many similar ones come at once, and counts them. Sans-I/O: time is an argument.

Of similar lines, ten in ten seconds are written; the others are counted, and one line reports them when the ten
seconds are over. Lines are similar if they come from the same place in the program, or are events about the same
member. There can be ten thousand members, so all lines of one kind (logger, level, kind of event) have a limit
too. The number of kinds is small, so the rate of the log is bounded, and a flood of one kind can't hide others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

WINDOW: Final = 10.0  # s
SIMILAR_LIMIT: Final = 10  # lines in a window
KIND_LIMIT: Final = 200  # lines in a window, so that a pool of 200 members that all fall silent is logged in full

Line = TypeVar("Line")


@dataclass
class _Window(Generic[Line]):
    end: float  # monotonic seconds
    written: int = 0
    suppressed: int = 0
    last: Line | None = None  # the last suppressed line


@dataclass(frozen=True)
class SuppressedLines(Generic[Line]):
    """The number of lines that a window suppressed, and the last of them."""

    count: int
    last: Line
    similar: bool  # False if they are only of the same kind


class LogSuppressor(Generic[Line]):
    """Decides which lines to write. Its memory is bounded by the limit for each kind."""

    def __init__(self) -> None:
        # In the order in which the windows end
        self._kinds: dict[Hashable, _Window[Line]] = {}
        self._similar: dict[Hashable, _Window[Line]] = {}

    def admits(self, line: Line, similar: Hashable, kind: Hashable, now: float) -> bool:
        """Return whether to write ``line``; if not, count it. Call ``ended`` with the same time first."""
        of_kind = self._kinds.get(kind)
        if of_kind is None:
            of_kind = self._kinds[kind] = _Window(now + WINDOW)
        of_similar = self._similar.get((kind, similar))
        if of_similar is None and of_kind.written < KIND_LIMIT:
            of_similar = self._similar[kind, similar] = _Window(now + WINDOW)
        window = of_kind if of_similar is None or of_kind.written >= KIND_LIMIT else of_similar
        if window is of_similar and window.written < SIMILAR_LIMIT:
            window.written += 1
            of_kind.written += 1
            return True
        window.suppressed += 1
        window.last = line
        return False

    def ended(self, now: float) -> Iterator[SuppressedLines[Line]]:
        """Yield once what each window that has ended suppressed."""
        for windows, similar in ((self._similar, True), (self._kinds, False)):
            while windows and (first := next(iter(windows.items())))[1].end <= now:
                key, window = first
                del windows[key]
                if window.last is not None:
                    yield SuppressedLines(window.suppressed, window.last, similar)

    @property
    def next_end(self) -> float | None:
        """The end of the first window that has suppressed a line, in monotonic seconds."""
        both = (*self._similar.values(), *self._kinds.values())
        return min((window.end for window in both if window.suppressed), default=None)

"""Which log lines are held back when many alike come at once, and what is said of them later. Pure: time is an
argument.

Of what is alike, ten lines in ten seconds are written; what comes beyond is counted, and told as one line when the ten
seconds are over. Alike are lines of one place in the program, or events about one member. Since there can be ten
thousand members, there is a limit as well for all lines of one sort (a logger, a level, a kind of event). There are
only so many sorts, so the log has a greatest rate; and what floods it can't hide what is of another sort.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

WINDOW: Final = 10.0  # s
ALIKE: Final = 10  # lines in a window
OF_A_SORT: Final = 200  # lines in a window: a pool of 200 members that all fall silent is told one by one

Line = TypeVar("Line")


@dataclass(slots=True)
class _Window(Generic[Line]):
    end: float  # monotonic seconds
    written: int = 0
    held: int = 0
    last: Line | None = None  # of those held


@dataclass(frozen=True, slots=True)
class Held(Generic[Line]):
    """So many lines were held back; the last of them was ``last``."""

    count: int
    last: Line
    alike: bool  # else they are only of one sort


class Flood(Generic[Line]):
    """Counts lines. What is remembered is bounded: what is alike is counted only while its sort is below its limit."""

    def __init__(self) -> None:
        # In the order in which they end
        self._sorts: dict[Hashable, _Window[Line]] = {}
        self._alike: dict[Hashable, _Window[Line]] = {}

    def admits(self, line: Line, alike: Hashable, sort: Hashable, now: float) -> bool:
        """Whether ``line`` is to be written; else it is held back. What is ``over`` is to be asked for first."""
        of_sort = self._sorts.get(sort)
        if of_sort is None:
            of_sort = self._sorts[sort] = _Window(now + WINDOW)
        like_it = self._alike.get((sort, alike))
        if like_it is None and of_sort.written < OF_A_SORT:
            like_it = self._alike[sort, alike] = _Window(now + WINDOW)
        full = of_sort if like_it is None or of_sort.written >= OF_A_SORT else like_it
        if full is like_it and full.written < ALIKE:
            full.written += 1
            of_sort.written += 1
            return True
        full.held += 1
        full.last = line
        return False

    def over(self, now: float) -> Iterator[Held[Line]]:
        """What was held back in windows that have ended; it is told once."""
        for windows, alike in ((self._alike, True), (self._sorts, False)):
            while windows and (window := windows[key := next(iter(windows))]).end <= now:
                del windows[key]
                if window.last is not None:
                    yield Held(window.held, window.last, alike)

    @property
    def next_end(self) -> float | None:
        """When the first window ends in which something is held back, monotonic seconds."""
        both = (*self._alike.values(), *self._sorts.values())
        return min((window.end for window in both if window.held), default=None)

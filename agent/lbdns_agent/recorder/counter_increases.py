"""Computes how much counters increased between recorded rows, even if a counter wraps around. Pure.

If a counter decreased, it wrapped around, the host was restarted, or the device was replaced. Linux shows times as
32-bit numbers on every machine, and the other counters as 32-bit or 64-bit numbers, depending on the kernel. A
wrap-around affects a single counter that was near its limit; a restart resets all counters to 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, sub
from typing import Final

from lbdns_agent.recorder.diskstats import COUNTERS
from lbdns_agent.recorder.recorded_file import CounterRow

WIDTHS: Final = (32, 64)  # bits
LONG_PAUSE: Final = 10.0  # times the pauses before and after: nothing was recorded in between
_IN_PROGRESS: Final = COUNTERS.index("in_progress")
_BUSY: Final = COUNTERS.index("busy_ms")
BUSY_TOLERANCE: Final = 2.0  # a busy time above the elapsed time times this was not measured, but misread


@dataclass(frozen=True)
class Increases:
    """The increase of each counter from ``start`` to ``end`` (Unix seconds).

    ``counters`` is in the order of ``diskstats.COUNTERS``. ``in_progress`` is not a total, so its increase is always 0.
    """

    start: float
    end: float
    counters: tuple[int, ...]

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def of(self, name: str) -> int:
        """Return the increase of a counter, or 0 if the kernel doesn't have it."""
        at = COUNTERS.index(name)
        return self.counters[at] if at < len(self.counters) else 0


def increases(rows: Sequence[CounterRow]) -> list[Increases | None]:
    """Return the increases between consecutive rows. None marks a gap, in which the increases are unknown.

    There is a gap if the host was restarted, the device replaced, the clock set back, or the recorder stopped.
    """
    pauses = [after.time - before.time for before, after in zip(rows, rows[1:])]
    found: list[Increases | None] = []
    for at, (before, after) in enumerate(zip(rows, rows[1:])):
        counters = None
        if pauses[at] > 0 and not is_long_pause(pauses, at):
            counters = counter_increases(before.counters, after.counters, pauses[at])
        found.append(None if counters is None else Increases(before.time, after.time, counters))
    return found


def counter_increases(before: Sequence[int], after: Sequence[int], seconds: float) -> tuple[int, ...] | None:
    """Return the increase of each counter, or None if the counters were reset."""
    if len(before) != len(after):
        return None  # another kernel
    simple = [*map(sub, after, before)]
    simple[_IN_PROGRESS] = 0
    if min(simple) >= 0:
        return tuple(simple)
    found = []
    for at, (old, new) in enumerate(zip(before, after)):
        increase = 0 if at == _IN_PROGRESS else _increase(old, new)
        if increase is None or (at == _BUSY and new < old and increase > BUSY_TOLERANCE * 1000.0 * seconds):
            return None
        found.append(increase)
    return tuple(found)


def _increase(old: int, new: int) -> int | None:
    if new >= old:
        return new - old
    for bits in WIDTHS:
        if old < 2**bits:
            wrapped = new - old + 2**bits
            # From less than half of the limit, no counter wraps around between two rows
            return wrapped if old >= 2 ** (bits - 1) > wrapped else None
    return None


def is_long_pause(pauses: Sequence[float], at: int) -> bool:
    """Return whether the pause at index ``at`` is much longer than the pauses before and after it."""
    neighbours = [*pauses[max(0, at - 1) : at], *pauses[at + 1 : at + 2]]
    return bool(neighbours) and pauses[at] > LONG_PAUSE * max(neighbours) > 0


def merged(parts: Sequence[Increases | None], shortest: float) -> list[Increases | None]:
    """Merge successive increases into parts of at least ``shortest`` seconds. A part before a gap may be shorter.

    Increases are summed without loss, so a rate computed from a merged part is the exact mean over that part.
    """
    found: list[Increases | None] = []
    for part in parts:
        last = found[-1] if found else None
        if part is None or last is None or last.seconds >= shortest or len(last.counters) != len(part.counters):
            found.append(part)
        else:
            found[-1] = Increases(last.start, part.end, tuple(map(add, last.counters, part.counters)))
    return found

"""History tiers and chunks. Each tier has a table, in which each row stores one column of one chunk of samples.
Sans-I/O.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal, Protocol

from lbdns.config.recording_sections import HistoryConfig
from lbdns.history.column_codec import ABSENT, encode, encode_texts
from lbdns.history.history_sample import (
    COUNTS,
    CUMULATIVE,
    EXACT,
    RAW_ONLY,
    SERVER,
    ColumnGroup,
    ColumnRow,
    HistoryMoment,
    packed_row,
)

TIME: Final = "time"  # a column of the server: Unix seconds
ALARM: Final = "alarm"  # a column of a pool, in the raw tier only; contains texts
SECONDS: Final = "seconds"  # a column of the server: seconds since the previous moment


#: (pool, "") or, for the server, (SERVER, column)
GroupKey = tuple[str, str]
TierName = Literal["raw", "10s", "1min"]


@dataclass(frozen=True, slots=True)
class HistoryTier:
    """A resolution of the history, with a moment every ``step`` seconds and a compressed chunk every ``chunk`` seconds.

    With longer chunks, the history is smaller and can be read faster, but each commit rewrites a longer last chunk.
    """

    name: TierName
    table: str
    step: float
    chunk: float


RAW: Final = HistoryTier("raw", "raw", 1.0, 10.0)
TEN_SECONDS: Final = HistoryTier("10s", "mean_10s", 10.0, 120.0)
MINUTE: Final = HistoryTier("1min", "mean_1min", 60.0, 1200.0)
TIERS: Final = (RAW, TEN_SECONDS, MINUTE)  # the finest first


def retention(config: HistoryConfig) -> Mapping[TierName, float]:
    """Return the number of seconds for which the data of each tier is kept, or 0 if it is not recorded."""
    return {"raw": config.keep_raw, "10s": config.keep_10s, "1min": config.keep_1min}


@dataclass(frozen=True, slots=True)
class ChunkColumn:
    """A packed column of a chunk. ``names`` lists the members.

    ``blob`` contains each member's packed values for all times.
    """

    pool: str
    column: str
    names: tuple[str, ...]
    blob: bytes


@dataclass(frozen=True, slots=True)
class ChunkPart:
    """A part of a chunk, which has been written to the file under a key of its own until the chunk is complete."""

    milliseconds: int
    times: Sequence[float]
    seconds: Sequence[float]


class WrittenParts(Protocol):
    """The parts of chunks in the file."""

    def values(self, tier: HistoryTier, milliseconds: int, pool: str, column: str) -> Sequence[float] | None:
        """Return each member's values for all times of the part, or None if the file does not contain the column."""


class HistoryChunk:
    """A chunk: consecutive moments of one tier, which all have the same members.

    The chunks of the coarse tiers last for minutes. Their moments are written in parts, and only the newest, unwritten
    moments stay in memory: those of all moments would take several kilobytes per member.
    """

    __slots__ = ("_begin", "_columns", "_last", "_layout", "moments", "parts", "tier")

    def __init__(self, tier: HistoryTier) -> None:
        self.tier = tier
        self.moments: list[HistoryMoment] = []  # those that no part contains
        self.parts: list[ChunkPart] = []
        self._begin = self._last = 0.0  # times of the first and of the last moment
        self._layout: Mapping[GroupKey, tuple[str, ...]] = {}  # the names in each group
        self._columns: dict[GroupKey, dict[str, None]] = {}

    def accepts(self, moment: HistoryMoment) -> bool:
        """Return True if ``moment`` follows the last moment, has the same members, and is in the chunk's time span."""
        if not self._layout:
            return True
        if not self._last < moment.time < self._begin + self.tier.chunk:
            return False
        return self._layout == {key: group.names for key, group in moment.groups.items()}

    def add(self, moment: HistoryMoment) -> None:
        """Add a moment that the chunk accepts."""
        if not self._layout:
            self._begin = moment.time
            self._layout = {key: group.names for key, group in moment.groups.items()}
        self._last = moment.time
        self.moments.append(moment)
        for key, group in moment.groups.items():
            self._columns.setdefault(key, {}).update(dict.fromkeys(group.rows))

    @property
    def begin(self) -> float:
        """The time of the first moment, in Unix seconds."""
        return self._begin

    def columns(self, written: WrittenParts | None = None) -> Iterator[ChunkColumn]:
        """Yield the non-empty columns of the moments in memory, and of those in the ``written`` parts if given.

        Columns are yielded one at a time, so that the caller can pause between columns.
        """
        parts = self.parts if written else ()
        times = [*chain.from_iterable(part.times for part in parts), *(m.time for m in self.moments)]
        seconds = [*chain.from_iterable(part.seconds for part in parts), *(m.seconds for m in self.moments)]
        yield ChunkColumn(SERVER, TIME, (TIME,), encode(times, exact=True))
        yield ChunkColumn(SERVER, SECONDS, (SECONDS,), encode(seconds, exact=True))
        exact_columns = EXACT if self.tier is RAW else CUMULATIVE
        for key, names in self._layout.items():
            none = [ABSENT] * len(names)
            for column in self._columns[key]:
                rows: list[ColumnRow] = []
                for part in parts:
                    values = written.values(self.tier, part.milliseconds, key[0], column) if written else None
                    rows += _rows(values, len(part.times), none)
                rows += [moment.groups[key].rows.get(column, none) for moment in self.moments]
                found = _by_member([packed_row(column, row) for row in rows])
                if any(x == x for x in found):
                    yield ChunkColumn(key[0], column, names, encode(found, exact=column in exact_columns))
        yield from self._alarms()

    def end_part(self, milliseconds: int) -> None:
        """Remove the moments from memory after they have been written as a part with the key ``milliseconds``."""
        times, seconds = [m.time for m in self.moments], [m.seconds for m in self.moments]
        self.parts.append(ChunkPart(milliseconds, times, seconds))
        self.moments.clear()

    def _alarms(self) -> Iterator[ChunkColumn]:
        found: dict[str, list[tuple[int, int, str]]] = {}
        for at, moment in enumerate(self.moments):
            for (pool, member), text in moment.alarms.items():
                found.setdefault(pool, []).append((self._layout[pool, ""].index(member), at, text))
        for pool, texts in found.items():
            yield ChunkColumn(pool, ALARM, self._layout[pool, ""], encode_texts(texts))


def _rows(values: Sequence[float] | None, count: int, none: ColumnRow) -> list[ColumnRow]:
    """Return the ``count`` rows of a part of a column. ``none`` is the row of a part that does not contain it."""
    if values is None or len(values) != count * len(none):
        return [none] * count
    return [values[at::count] for at in range(count)]


def _by_member(rows: Sequence[array[float]]) -> array[float]:
    """Return each member's values for all times. ``rows`` contain the values of all members for one time each."""
    found: array[float] = array(rows[0].typecode, bytes(rows[0].itemsize * len(rows) * len(rows[0])))
    for at, row in enumerate(rows):
        found[at :: len(rows)] = row
    return found


class Downsampler:
    """Collects one tier's moments, and combines them into one moment per step of the next coarser tier."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._gathered: list[HistoryMoment] = []

    def add(self, moment: HistoryMoment) -> HistoryMoment | None:
        """Add ``moment``. Return the mean of the previous step if ``moment`` begins a new step, otherwise None."""
        found = None
        if self._gathered and self._slot(moment) != self._slot(self._gathered[0]):
            found = self.finish()
        self._gathered.append(moment)
        return found

    def finish(self) -> HistoryMoment | None:
        """Discard the collected moments, and return their mean, or None if no moments were collected."""
        gathered, self._gathered = self._gathered, []
        return downsample(gathered, self._slot(gathered[0]) * self._step) if gathered else None

    def _slot(self, moment: HistoryMoment) -> int:
        return int(moment.time // self._step)


def downsample(moments: Sequence[HistoryMoment], time: float) -> HistoryMoment:
    """Combine ``moments`` into one moment at ``time``: sum counts, keep the last value of counters, and average all
    other values.

    Moments whose members differ from those of the last moment are ignored.
    """
    groups = {}
    for key, last in moments[-1].groups.items():
        same = [m.groups[key].rows for m in moments if key in m.groups and m.groups[key].names == last.names]
        columns = dict.fromkeys(chain.from_iterable(same))
        groups[key] = ColumnGroup(
            last.names, {c: _mean(c, [rows[c] for rows in same if c in rows]) for c in columns if c not in RAW_ONLY}
        )
    seconds = [moment.seconds for moment in moments if moment.seconds == moment.seconds]
    return HistoryMoment(time, sum(seconds) if seconds else ABSENT, groups)


def _mean(column: str, rows: Sequence[ColumnRow]) -> ColumnRow:
    """Combine consecutive rows of one column into one row."""
    if column in CUMULATIVE:
        return [next((x for x in reversed(values) if x == x), ABSENT) for values in zip(*rows, strict=True)]
    share = 1.0 if column in COUNTS else 1 / len(rows)
    found = [sum(values) * share for values in zip(*rows, strict=True)]
    for i, mean in enumerate(found):
        if mean != mean and (known := [row[i] for row in rows if row[i] == row[i]]):
            found[i] = sum(known) * (1.0 if column in COUNTS else 1 / len(known))
    return found

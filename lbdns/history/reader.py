"""Reading the history: series, events, and every second as it was. Needs no running server, and disturbs none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.errors import ConfigError
from lbdns.events import KINDS, Event
from lbdns.history.chunk import ALARM, SECONDS, TIME
from lbdns.history.columns import COUNTS, RAW_ONLY, SERVER
from lbdns.history.database import HIDDEN, Database, open_database
from lbdns.history.series import Series, Slots, Sums, choose, slots, step_of
from lbdns.history.tiers import RAW, Tier, TierName
from lbdns.toml_table import nearest

AT_ONCE: Final = 50  # members of a chunk, before others have their turn: 1 or 2 ms


@dataclass(frozen=True, slots=True)
class PoolInfo:
    """What was last known of a recorded pool."""

    name: str
    zone: str
    policies: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RawMoment:
    """A second of one pool as it was: ``columns`` by name, one value a member, NaN where there is none."""

    time: float  # Unix seconds
    members: tuple[str, ...]
    columns: Mapping[str, Sequence[float]]
    alarms: Mapping[str, str]


class Reader:
    """Opens the file anew with each question: one that was replaced meanwhile is read. Everything raises LbdnsError."""

    def __init__(self, path: Path, rest: Callable[[], None] = lambda: None) -> None:
        """``rest`` is called after each bit of work, as with ``Recorder``."""
        self.path = path
        self._rest = rest

    def pools(self) -> list[PoolInfo]:
        with open_database(self.path) as db:
            rows = db.run("SELECT pool, zone, policies FROM pools ORDER BY pool")
            return [PoolInfo(pool, zone, json.loads(policies)) for pool, zone, policies in rows]

    def metrics(self, pool: str) -> list[str]:
        """What is recorded of a pool, or of the server."""
        with open_database(self.path) as db:
            return [name for name in db.series(pool) if name not in HIDDEN]

    def begins(self) -> Mapping[TierName, float]:
        """When (Unix seconds) what each tier has begins."""
        with open_database(self.path) as db:
            return db.begins()

    def series(self, pool: str, metric: str, members: Sequence[str], start: float, end: float, points: int) -> Series:
        """A metric from ``start`` to ``end`` (Unix seconds), by member: of ``members``, of all if there are none.
        About ``points`` times at most. Of the server (``pool`` empty): queries, types or rcodes."""
        if not (math.isfinite(start) and math.isfinite(end) and start < end and points > 0):
            raise ConfigError("history: from, to and points: from has to be before to, and points more than 0")
        with open_database(self.path) as db:
            db.check(pool, metric)
            tier = RAW if metric in RAW_ONLY else choose(db.begins(), start, end, points)
            step = step_of(tier, start, end, points)
            found = _gather(db, tier, (pool, metric), members, start, end, step, self._rest)
            for member in members:
                db.check_member(pool, member)
        blank = (None,) * len(found.times)
        values = {name: found.values.get(name, blank) for name in members or found.values}
        return Series(pool, metric, tier.name, step, found.times, values)

    def events(self, since: float = 0.0, limit: int = 1000, kind: str = "", until: float = math.inf) -> list[Event]:
        """The newest ``limit`` events from after ``since`` and not after ``until`` (Unix seconds), the newest last."""
        if kind and kind not in KINDS:
            raise ConfigError(f"history: there are no events of kind {kind!r}{nearest(kind, KINDS)}")
        with open_database(self.path) as db:
            rows = db.run(
                "SELECT number, time, kind, level, text, pool, member FROM events"
                " WHERE time > ? AND time <= ? AND (? = '' OR kind = ?) ORDER BY time DESC, id DESC LIMIT ?",
                (since, until, kind, kind, max(0, limit)),
            )
            return [Event(*row) for row in reversed(rows)]

    def raw(self, pool: str, start: float, end: float) -> Iterator[RawMoment]:
        """Every second of a pool from ``start`` to ``end`` (Unix seconds) of which raw values are kept."""
        with open_database(self.path) as db:
            db.check(pool, "age_s")
            columns = [name for name in db.series(pool) if name != ALARM]
            for milliseconds in db.chunks(RAW, start, end):
                times = db.column(RAW, milliseconds, SERVER, TIME)
                for moment in _moments(db, milliseconds, times.values if times else (), pool, columns):
                    if start <= moment.time <= end:
                        yield moment


@dataclass(frozen=True, slots=True)
class _Gathered:
    times: tuple[float, ...]
    values: Mapping[str, tuple[float | None, ...]]


def _gather(
    db: Database,
    tier: Tier,
    place: tuple[str, str],
    wanted: Sequence[str],
    start: float,
    end: float,
    step: float,
    rest: Callable[[], None],
) -> _Gathered:
    """The points of one column (``place``: its pool and name)."""
    chunks = [
        (milliseconds, times.values)
        for milliseconds in db.chunks(tier, start, end)
        if (times := db.column(tier, milliseconds, SERVER, TIME)) is not None
    ]
    points = slots((t for _, times in chunks for t in times if start <= t <= end), tier, step)
    sums = Sums(len(points.times))
    for milliseconds, moments in chunks:
        column = db.column(tier, milliseconds, *place)
        if column is None or len(column.values) != len(moments) * len(column.names):
            continue
        weights = _weights(db, tier, milliseconds, len(moments)) if place[1] in COUNTS else [1.0] * len(moments)
        runs = _runs(moments, points)
        for i, name in enumerate(column.names):
            if i % AT_ONCE == 0:
                rest()
            if not wanted or name in wanted:
                sums.add(name, column.values[i * len(moments) : (i + 1) * len(moments)], weights, runs)
    means = {}
    for name, values in sums.means():
        means[name] = values
        rest()
    return _Gathered(points.times, means)


def _weights(db: Database, tier: Tier, milliseconds: int, count: int) -> Sequence[float]:
    """How many seconds each moment of a chunk stands for; 0 where that is not known."""
    seconds = db.column(tier, milliseconds, SERVER, SECONDS)
    if seconds is None or len(seconds.values) != count:
        return [0.0] * count
    return [value if value == value else 0.0 for value in seconds.values]


def _runs(times: Sequence[float], points: Slots) -> list[tuple[int, int, int]]:
    """Which of the moments belong to which point: (point, from, to)."""
    runs: list[tuple[int, int, int]] = []
    for at, time in enumerate(times):
        point = points.of.get(time)
        if point is None:
            continue
        if runs and runs[-1][0] == point and runs[-1][2] == at:
            runs[-1] = (point, runs[-1][1], at + 1)
        else:
            runs.append((point, at, at + 1))
    return runs


def _moments(
    db: Database, milliseconds: int, times: Sequence[float], pool: str, columns: Sequence[str]
) -> Iterator[RawMoment]:
    """The seconds of one chunk."""
    found = {name: column for name in columns if (column := db.column(RAW, milliseconds, pool, name)) is not None}
    count = len(times)
    members = next((column.names for column in found.values()), ())
    values = {
        name: column.values
        for name, column in found.items()
        if column.names == members and len(column.values) == count * len(members)
    }
    alarms: dict[int, dict[str, str]] = {}
    for member, at, text in db.texts(milliseconds, pool):
        if member < len(members):
            alarms.setdefault(at, {})[members[member]] = text
    for at, time in enumerate(times if members else ()):
        yield RawMoment(time, members, {n: v[at::count] for n, v in values.items()}, alarms.get(at, {}))

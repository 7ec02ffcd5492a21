"""Reads the history: series, events, and every recorded second. It needs no running server and disturbs none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.events.event_log import EVENT_KINDS, LoggedEvent
from lbdns.history.history_chunk import ALARM, RAW, SECONDS, TIME, HistoryTier, TierName
from lbdns.history.history_database import HIDDEN, HistoryDatabase, open_database
from lbdns.history.history_sample import COUNTS, RAW_ONLY, SERVER
from lbdns.history.history_series import HistorySeries, PointSums, SeriesPoints, choose_tier, point_step, series_points
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError

AT_ONCE: Final = 50  # members of a chunk between two pauses: 1 or 2 ms of work


@dataclass(frozen=True, slots=True)
class RecordedPool:
    """The last known zone and policies of a recorded pool."""

    name: str
    zone: str
    policies: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RawMoment:
    """One recorded second of one pool. ``columns`` are keyed by name, with one value per member, NaN if missing."""

    time: float  # Unix seconds
    members: tuple[str, ...]
    columns: Mapping[str, Sequence[float]]
    alarms: Mapping[str, str]


class HistoryReader:
    """Reads one history file. Each call opens the file anew. All methods raise LbdnsError.

    ``rest`` is called after each small piece of work, as in ``HistoryRecorder``.
    """

    def __init__(self, path: Path, rest: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._rest = rest

    def pools(self) -> list[RecordedPool]:
        """Return all pools that were ever recorded."""
        with open_database(self.path) as db:
            rows = db.run("SELECT pool, zone, policies FROM pools ORDER BY pool")
            return [RecordedPool(pool, zone, json.loads(policies)) for pool, zone, policies in rows]

    def metrics(self, pool: str) -> list[str]:
        """Return the metrics recorded for a pool, or for the server if ``pool`` is empty."""
        with open_database(self.path) as db:
            return [name for name in db.columns(pool) if name not in HIDDEN]

    def begins(self) -> Mapping[TierName, float]:
        """Return when each tier's data begins, in Unix seconds."""
        with open_database(self.path) as db:
            return db.begins()

    def series(
        self, pool: str, metric: str, members: Sequence[str], start: float, end: float, points: int
    ) -> HistorySeries:
        """Return a metric from ``start`` to ``end`` (Unix seconds) for ``members``, or for all if none is named.

        The series has at most about ``points`` times. An empty ``pool`` means the server: queries, types or rcodes.
        """
        if not (math.isfinite(start) and math.isfinite(end) and start < end and points > 0):
            raise ConfigError("history: from must be earlier than to, and points must be greater than 0")
        with open_database(self.path) as db:
            db.check(pool, metric)
            tier = RAW if metric in RAW_ONLY else choose_tier(db.begins(), start, end, points)
            step = point_step(tier, start, end, points)
            times, means = _gather(db, tier, (pool, metric), members, start, end, step, self._rest)
            for member in members:
                db.check_member(pool, member)
        blank = (None,) * len(times)
        return HistorySeries(
            pool, metric, tier.name, step, times, {name: means.get(name, blank) for name in members or means}
        )

    def events(
        self, since: float = 0.0, limit: int = 1000, kind: str = "", until: float = math.inf
    ) -> list[LoggedEvent]:
        """Return the newest ``limit`` events after ``since`` and up to ``until`` (Unix seconds), the newest last."""
        if kind and kind not in EVENT_KINDS:
            raise ConfigError(f"history: kind: {kind!r} is not a kind of event{nearest(kind, EVENT_KINDS)}")
        with open_database(self.path) as db:
            rows = db.run(
                "SELECT number, time, kind, level, text, pool, member FROM events"
                " WHERE time > ? AND time <= ? AND (? = '' OR kind = ?) ORDER BY time DESC, id DESC LIMIT ?",
                (since, until, kind, kind, max(0, limit)),
            )
            return [LoggedEvent(*row) for row in reversed(rows)]

    def raw(self, pool: str, start: float, end: float) -> Iterator[RawMoment]:
        """Yield every second of a pool from ``start`` to ``end`` (Unix seconds) for which raw values are still kept."""
        with open_database(self.path) as db:
            db.check(pool, "age_s")
            columns = [name for name in db.columns(pool) if name != ALARM]
            for milliseconds in db.chunks(RAW, start, end):
                times = db.column(RAW, milliseconds, SERVER, TIME)
                for moment in _moments(db, milliseconds, times.values if times else (), pool, columns):
                    if start <= moment.time <= end:
                        yield moment


def _gather(
    db: HistoryDatabase,
    tier: HistoryTier,
    place: tuple[str, str],
    members: Sequence[str],
    start: float,
    end: float,
    step: float,
    rest: Callable[[], None],
) -> tuple[tuple[float, ...], Mapping[str, tuple[float | None, ...]]]:
    """Return the times of a series' points, and their values by member. ``place``: the names of pool and column."""
    chunks = [
        (milliseconds, times.values)
        for milliseconds in db.chunks(tier, start, end)
        if (times := db.column(tier, milliseconds, SERVER, TIME)) is not None
    ]
    points = series_points((t for _, times in chunks for t in times if start <= t <= end), tier, step)
    sums = PointSums(len(points.times))
    for milliseconds, moments in chunks:
        column = db.column(tier, milliseconds, *place)
        if column is None or len(column.values) != len(moments) * len(column.names):
            continue
        weights = _weights(db, tier, milliseconds, len(moments)) if place[1] in COUNTS else [1.0] * len(moments)
        runs = _runs(moments, points)
        for i, name in enumerate(column.names):
            if i % AT_ONCE == 0:
                rest()
            if not members or name in members:
                sums.add(name, column.values[i * len(moments) : (i + 1) * len(moments)], weights, runs)
    means = {}
    for name, values in sums.means():
        means[name] = values
        rest()
    return points.times, means


def _weights(db: HistoryDatabase, tier: HistoryTier, milliseconds: int, count: int) -> Sequence[float]:
    """Return how many seconds each moment of a chunk stands for; 0 if unknown."""
    seconds = db.column(tier, milliseconds, SERVER, SECONDS)
    if seconds is None or len(seconds.values) != count:
        return [0.0] * count
    return [value if value == value else 0.0 for value in seconds.values]


def _runs(times: Sequence[float], points: SeriesPoints) -> list[tuple[int, int, int]]:
    """Return which moments belong to which point, as (point, first moment, end)."""
    runs: list[tuple[int, int, int]] = []
    for at, time in enumerate(times):
        if (point := points.of.get(time)) is None:
            continue
        if runs and runs[-1][0] == point and runs[-1][2] == at:
            runs[-1] = (point, runs[-1][1], at + 1)
        else:
            runs.append((point, at, at + 1))
    return runs


def _moments(
    db: HistoryDatabase, milliseconds: int, times: Sequence[float], pool: str, columns: Sequence[str]
) -> Iterator[RawMoment]:
    """Yield the seconds of one chunk."""
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

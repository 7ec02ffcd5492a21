"""Reads the history: metrics over time, events, and all values recorded in each second.

The module needs no running server.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from lbdns.events.event_log import EVENT_KINDS, LoggedEvent
from lbdns.history.history_chunk import ALARM, RAW, SECONDS, TIERS, TIME, HistoryTier, TierName
from lbdns.history.history_database import HIDDEN, HistoryDatabase, open_database
from lbdns.history.history_sample import COUNTS, RAW_ONLY, SERVER
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError

AT_ONCE: Final = 50  # members whose values are added up between two pauses, in 1 or 2 ms
#: A gap of more steps than this becomes visible: a plot draws no line across it
GAP: Final = 2.5


@dataclass(frozen=True, slots=True)
class RecordedPool:
    """A recorded pool with its last known zone and policies."""

    name: str
    zone: str
    policies: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RawMoment:
    """The recorded values of one pool for one second.

    ``columns`` maps each column name to one value per member (NaN if missing).
    """

    time: float  # Unix seconds
    members: tuple[str, ...]
    columns: Mapping[str, Sequence[float]]
    alarms: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HistorySeries:
    """The values of one metric over time, keyed by member.

    ``times`` lists the start times (Unix seconds) of intervals that are ``step_s`` seconds long.
    """

    pool: str
    metric: str
    tier: TierName
    step_s: float
    times: tuple[float, ...]
    series: Mapping[str, tuple[float | None, ...]]

    def document(self) -> dict[str, Any]:
        """Return the series as a document for the HTTP API."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # asdict would copy every value


class HistoryReader:
    """A reader of one history file. Each call opens the file again. All methods can raise LbdnsError."""

    def __init__(self, path: Path, rest: Callable[[], None] = lambda: None) -> None:
        """``rest`` is called after each small piece of work. ``HistoryRecorder`` has the same parameter."""
        self.path = path
        self._rest = rest

    def pools(self) -> list[RecordedPool]:
        """Return all pools that have ever been recorded."""
        with open_database(self.path) as db:
            rows = db.run("SELECT pool, zone, policies FROM pools ORDER BY pool")
            return [RecordedPool(pool, zone, json.loads(policies)) for pool, zone, policies in rows]

    def metrics(self, pool: str) -> list[str]:
        """Return the metrics recorded for a pool, or for the server if ``pool`` is empty."""
        with open_database(self.path) as db:
            return [name for name in db.columns(pool) if name not in HIDDEN]

    def begins(self) -> Mapping[TierName, float]:
        """Return the Unix time at which each tier's data begins, keyed by tier."""
        with open_database(self.path) as db:
            return db.begins()

    def series(
        self, pool: str, metric: str, members: Sequence[str], start: float, end: float, points: int
    ) -> HistorySeries:
        """Return a metric of ``members`` (all members if empty) from ``start`` to ``end`` (Unix seconds).

        The series has at most about ``points`` points. If ``pool`` is empty, the metric is a metric of the server:
        queries, types or rcodes.
        """
        if not (math.isfinite(start) and math.isfinite(end) and start < end and points > 0):
            raise ConfigError("history: 'from' must be earlier than 'to', and 'points' must be greater than 0")
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
        """Return up to ``limit`` of the newest events after ``since``, in chronological order.

        Events after ``until`` are excluded. Both times are in Unix seconds.
        """
        if kind and kind not in EVENT_KINDS:
            raise ConfigError(f"history: {kind!r} is not a kind of event{nearest(kind, EVENT_KINDS)}")
        with open_database(self.path) as db:
            rows = db.run(
                "SELECT number, time, kind, level, text, pool, member FROM events"
                " WHERE time > ? AND time <= ? AND (? = '' OR kind = ?) ORDER BY time DESC, id DESC LIMIT ?",
                (since, until, kind, kind, max(0, limit)),
            )
            return [LoggedEvent(*row) for row in reversed(rows)]

    def raw(self, pool: str, start: float, end: float) -> Iterator[RawMoment]:
        """Yield each second from ``start`` to ``end`` (Unix seconds) for which the pool's raw values still exist."""
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
    """Return the times and the values (keyed by member) of a series' points. ``place`` is a (pool, column) pair."""
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
    """Return the number of seconds that each moment of a chunk covers, or 0 if unknown."""
    seconds = db.column(tier, milliseconds, SERVER, SECONDS)
    if seconds is None or len(seconds.values) != count:
        return [0.0] * count
    return [value if value == value else 0.0 for value in seconds.values]


def _runs(times: Sequence[float], points: SeriesPoints) -> list[tuple[int, int, int]]:
    """Return (point, first moment, end) tuples, one for each run of successive moments that share a point."""
    runs = []
    for point, places in groupby(range(len(times)), lambda at: points.of.get(times[at])):
        if point is not None:
            first, *others = places
            runs.append((point, first, first + len(others) + 1))
    return runs


def _moments(
    db: HistoryDatabase, milliseconds: int, times: Sequence[float], pool: str, columns: Sequence[str]
) -> Iterator[RawMoment]:
    """Yield the recorded seconds of one chunk."""
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


def choose_tier(begins: Mapping[TierName, float], start: float, end: float, points: int) -> HistoryTier:
    """Return the coarsest tier with at least ``points`` moments between ``start`` and ``end``.

    If the data of this tier does not reach back to ``start``, return the nearest tier with data from ``start``. If no
    tier has data from ``start``, return the tier with the oldest data. ``begins`` maps each tier to the Unix time at
    which its data begins.
    """
    step = (end - start) / points
    at = max((i for i, tier in enumerate(TIERS) if tier.step <= step), default=0)
    order = (*TIERS[at:], *reversed(TIERS[:at]))
    best, reach = order[0], math.inf
    for tier in order:
        begin = max(start, begins.get(tier.name, math.inf))
        if begin < reach - 2 * tier.step:  # each tier begins a step or two after the next finer one
            best, reach = tier, begin
        if reach <= start + 2 * tier.step:
            break
    return best


def point_step(tier: HistoryTier, start: float, end: float, points: int) -> float:
    """Return the interval between points: the smallest multiple of the tier's step with at most ``points`` points."""
    return tier.step * max(1, math.ceil((end - start) / points / tier.step - 1e-9))


@dataclass(frozen=True, slots=True)
class SeriesPoints:
    """The points of a series. ``times`` lists the points' times. ``of`` maps each moment to the index of its point."""

    times: tuple[float, ...]
    of: Mapping[float, int]


def series_points(moments: Iterable[float], tier: HistoryTier, step: float) -> SeriesPoints:
    """Return the points for ``moments`` (Unix seconds).

    Moments within one step share a point. A point without values marks a gap. If the step is too short for several raw
    moments, each point has the exact time of its moment.
    """
    alone = tier is RAW and step <= tier.step
    times: list[float] = []
    found: dict[float, int] = {}
    for moment in sorted(set(moments)):
        time = moment if alone else math.floor(moment / step + 1e-9) * step
        if times and time - times[-1] > GAP * step:
            times.append(times[-1] + step)
        if not times or time > times[-1]:
            times.append(time)
        found[moment] = len(times) - 1
    return SeriesPoints(tuple(times), found)


class PointSums:
    """A sum of values and weights for each member and point."""

    def __init__(self, points: int) -> None:
        self._points = points
        self._sums: dict[str, tuple[list[float], list[float]]] = {}

    def add(
        self, member: str, values: Sequence[float], weights: Sequence[float], runs: Sequence[tuple[int, int, int]]
    ) -> None:
        """Add the ``values`` at consecutive moments (NaN if missing).

        Each item of ``runs`` is a (point, first moment, end) tuple.

        The weight of a count is the number of seconds that the count covers, so that the means are rates.
        """
        sums, counts = self._sums.setdefault(member, ([0.0] * self._points, [0.0] * self._points))
        for point, begin, end in runs:
            total = sum(values[begin:end])
            if total == total:
                sums[point] += total
                counts[point] += sum(weights[begin:end])
                continue
            for value, weight in zip(values[begin:end], weights[begin:end], strict=True):
                if value == value:
                    sums[point] += value
                    counts[point] += weight

    def means(self) -> Iterator[tuple[str, tuple[float | None, ...]]]:
        """Yield each member and its mean values at all points."""
        for member, both in self._sums.items():
            values = [_value(total / count) if count > 0 else None for total, count in zip(*both, strict=True)]
            yield member, tuple(values)


def _value(value: float) -> float | None:
    """Return ``value`` rounded to about seven digits, which shortens the JSON, or None if ``value`` is not finite."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.7g}") if abs(value) < 1e6 else round(value, 1)

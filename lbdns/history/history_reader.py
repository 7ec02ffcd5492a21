"""Reads the history: metrics over time, events, and all values recorded in each second.

The module needs no running server.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from lbdns.events.event_log import EVENT_KINDS, LoggedEvent
from lbdns.history.history_chunk import ALARM, RAW, TIME, HistoryTier, TierName
from lbdns.history.history_database import HIDDEN, HistoryDatabase, open_database
from lbdns.history.history_points import PointSums, choose_tier, plan_chunks, point_step, weights
from lbdns.history.history_sample import RAW_ONLY, SERVER
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError

AT_ONCE: Final = 50  # members whose values are added up between two pauses, in 1 or 2 ms


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
        """Return the values of a metric for ``members`` (all members if empty) from ``start`` to ``end`` (Unix
        seconds).

        The series has no more than about ``points`` points. If ``pool`` is empty, ``metric`` must be a metric of the
        server: queries, types or rcodes.
        """
        if not (math.isfinite(start) and math.isfinite(end) and start < end and points > 0):
            raise ConfigError("history: 'from' must be earlier than 'to', and 'points' must be greater than 0")
        with open_database(self.path) as db:
            db.check(pool, metric)
            step = (end - start) / points
            tier = RAW if metric in RAW_ONLY else choose_tier(db.begins(), start, step)
            step = point_step(tier, step)
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
    """Return two values: the times of a series' points, and their values, keyed by member. ``place`` is a (pool,
    column) pair."""
    times, chunks = plan_chunks(db, tier, start, end, step)
    sums = PointSums(len(times))
    for chunk in chunks:
        column = db.column(tier, chunk.milliseconds, *place)
        if column is None or len(column.values) != chunk.count * len(column.names):
            continue
        seconds = weights(db, tier, chunk, place[1])
        for i, name in enumerate(column.names):
            if i % AT_ONCE == 0:
                rest()
            if not members or name in members:
                sums.add(name, column.values[i * chunk.count : (i + 1) * chunk.count], seconds, chunk.runs)
    means = {}
    for name, values in sums.means():
        means[name] = values
        rest()
    return times, means


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

"""The SQLite file of the history, for those who read: what is in it, by chunk and column."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from lbdns.errors import ConfigError, LbdnsError
from lbdns.history.chunk import ALARM, SECONDS, TIME
from lbdns.history.codec import decode, decode_texts
from lbdns.history.columns import SERVER
from lbdns.history.store import BUSY, SERIES_BITS, check_ours, key
from lbdns.history.tiers import RAW, TIERS, Tier, TierName
from lbdns.toml_table import nearest

#: Columns that are no metric
HIDDEN: Final = frozenset({TIME, SECONDS, ALARM})


class NoHistoryError(LbdnsError):
    """There is no file, or nothing in it yet."""


class NoSuchSeriesError(ConfigError):
    """A pool, a metric or a member that nothing was recorded of."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a chunk: its members, and all values, member by member."""

    names: tuple[str, ...]
    values: Sequence[float]


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """One state of the file, whatever is written meanwhile. Raises LbdnsError."""
    if not path.exists():
        raise NoHistoryError(f"{path}: there is no history; 'lbdns serve' keeps one, unless [history] on = false")
    try:
        with closing(_connect(path)) as connection:
            if not check_ours(connection, path):
                raise NoHistoryError(f"{path}: nothing is recorded yet")
            connection.execute("BEGIN")
            yield Database(connection)
    except sqlite3.Error as error:
        raise LbdnsError(f"{path}: the history can't be read: {error}") from None


def _connect(path: Path) -> sqlite3.Connection:
    name = f"file:{quote(str(path))}?mode=ro"
    connection = sqlite3.connect(name, uri=True, timeout=BUSY, isolation_level=None)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        # Who may not write beside the file can't share it. With no log beside it there is nobody to share it with
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise
        connection = sqlite3.connect(f"{name}&immutable=1", uri=True, isolation_level=None)
    return connection


class Database:
    """An open file. Raises sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._layouts: dict[int, tuple[str, ...]] = {}
        self._series: dict[str, dict[str, int]] = {}
        for number, pool, column in self.run("SELECT id, pool, name FROM series ORDER BY name"):
            self._series.setdefault(pool, {})[column] = number

    def run(self, statement: str, arguments: Sequence[object] = ()) -> list[Any]:
        return self._connection.execute(statement, arguments).fetchall()

    def series(self, pool: str) -> Mapping[str, int]:
        """The columns of a pool, or of the server."""
        return self._series.get(pool, {})

    def check(self, pool: str, metric: str) -> None:
        """Raises NoSuchSeriesError if nothing was ever recorded of them."""
        if pool not in self._series:
            known = [name for name in self._series if name != SERVER]
            raise NoSuchSeriesError(f"history: pool: nothing is recorded of {pool!r}{nearest(pool, known)}")
        if metric not in self._series[pool] or metric in HIDDEN:
            known = [name for name in self._series[pool] if name not in HIDDEN]
            of = f"pool {pool}" if pool else "the server"
            raise NoSuchSeriesError(
                f"history: metric: nothing is recorded of {metric!r} of {of}{nearest(metric, known)}"
            )

    def check_member(self, pool: str, member: str) -> None:
        """Raises NoSuchSeriesError if no pool ever had it; which pools had it is not told."""
        known = {name for (names,) in self.run("SELECT names FROM layouts") for name in json.loads(names)}
        if member not in known:
            raise NoSuchSeriesError(
                f"history: member: nothing is recorded of {member!r}{nearest(member, sorted(known))}"
            )

    def begins(self) -> Mapping[TierName, float]:
        """When (Unix seconds) what each tier has begins."""
        found: dict[TierName, float] = {}
        for tier in TIERS:
            ((first,),) = self.run(f"SELECT min(id) FROM {tier.table}")
            if first is not None:
                found[tier.name] = (first >> SERIES_BITS) / 1000
        return found

    def chunks(self, tier: Tier, start: float, end: float) -> Iterator[int]:
        """The keys (milliseconds) of the chunks that may have moments of the span, in order.

        Rows are looked up one by one, so that none but those that are asked for is read from the disk.
        """
        after = key(max(0, int((start - tier.chunk) * 1000)), 0)
        last = key(max(0, int(end * 1000) + 1000), 0)  # what a key is beyond the time it begins at: see Recorder
        while True:
            row = self._connection.execute(f"SELECT id FROM {tier.table} WHERE id >= ? LIMIT 1", (after,)).fetchone()
            if row is None or row[0] >= last:
                return
            yield row[0] >> SERIES_BITS
            after = key((row[0] >> SERIES_BITS) + 1, 0)

    def column(self, tier: Tier, chunk: int, pool: str, name: str) -> Column | None:
        """None if that column says nothing in that chunk, or can't be read: a hole in the history is none in the
        rest of it."""
        row = self._blob(tier, chunk, pool, name)
        if row is None:
            return None
        try:
            return Column(self._names(row[0]), decode(row[1]))
        except ValueError:
            return None

    def texts(self, chunk: int, pool: str) -> list[tuple[int, int, str]]:
        """The alarms of a chunk: member and time, by number, and text."""
        row = self._blob(RAW, chunk, pool, ALARM)
        try:
            return decode_texts(row[1]) if row else []
        except ValueError:
            return []

    def _blob(self, tier: Tier, chunk: int, pool: str, name: str) -> tuple[int, bytes] | None:
        number = self.series(pool).get(name)
        if number is None:
            return None
        statement = f"SELECT layout, data FROM {tier.table} WHERE id = ?"
        row: tuple[int, bytes] | None = self._connection.execute(statement, (key(chunk, number),)).fetchone()
        return row

    def _names(self, layout: int) -> tuple[str, ...]:
        """Raises ValueError."""
        if layout not in self._layouts:
            rows = self.run("SELECT names FROM layouts WHERE id = ?", (layout,))
            if not rows:
                raise ValueError("a column without members")
            self._layouts[layout] = tuple(json.loads(rows[0][0]))
        return self._layouts[layout]

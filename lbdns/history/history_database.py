"""Reads the SQLite file of the history: looks up chunks and columns by tier, pool and time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from lbdns.history.column_codec import decode, decode_texts
from lbdns.history.history_chunk import ALARM, RAW, SECONDS, TIERS, TIME, HistoryTier, TierName
from lbdns.history.history_sample import SERVER
from lbdns.history.history_store import BUSY, SERIES_BITS, check_ours, key
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError, LbdnsError

#: Columns that are not metrics
HIDDEN: Final = frozenset({TIME, SECONDS, ALARM})


class NoHistoryError(LbdnsError):
    """Raised if the history file does not exist or is empty."""


class NoSuchSeriesError(ConfigError):
    """Raised if the history has no data for a pool, metric or member."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """An unpacked column of a chunk. ``names`` lists the members.

    ``values`` contains all values of the first member, then of the second member, and so on.
    """

    names: tuple[str, ...]
    values: Sequence[float]


@contextmanager
def open_database(path: Path) -> Iterator[HistoryDatabase]:
    """Open the history file for reading. All queries return data from one consistent state of the file.

    Raises LbdnsError.
    """
    if not path.exists():
        raise NoHistoryError(
            f"{path}: there is no history; 'lbdns serve' records a history unless [history] on = false"
        )
    try:
        with closing(connect(path)) as connection:
            if not check_ours(connection, path):
                raise NoHistoryError(f"{path}: nothing is recorded yet")
            connection.execute("BEGIN")
            yield HistoryDatabase(connection)
    except sqlite3.Error as error:
        raise LbdnsError(f"{path}: cannot read the history: {error}") from None


def connect(path: Path) -> sqlite3.Connection:
    """Open the file for reading, even without write access to its directory. Raises sqlite3.Error."""
    name = f"file:{quote(str(path))}?mode=ro"
    connection = sqlite3.connect(name, uri=True, timeout=BUSY, isolation_level=None)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        # A process without write access to the folder can't share SQLite's write-ahead log. If that log is empty, no
        # process is writing, and the file can be read as immutable
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise
        connection = sqlite3.connect(f"{name}&immutable=1", uri=True, isolation_level=None)
    return connection


class HistoryDatabase:
    """The history file, open for reading. All methods may raise sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._layouts: dict[int, tuple[str, ...]] = {}
        self._series: dict[str, dict[str, int]] = {}
        for number, pool, column in self.run("SELECT id, pool, name FROM series ORDER BY name"):
            self._series.setdefault(pool, {})[column] = number

    def run(self, statement: str, arguments: Sequence[object] = ()) -> list[Any]:
        """Execute a statement and return all rows."""
        return self._connection.execute(statement, arguments).fetchall()

    def columns(self, pool: str) -> list[str]:
        """Return the names of a pool's columns, or of the server's columns if ``pool`` is empty."""
        return list(self._series.get(pool, ()))

    def check(self, pool: str, metric: str) -> None:
        """Raise NoSuchSeriesError if nothing has ever been recorded for this pool and metric."""
        if pool not in self._series:
            known = [name for name in self._series if name != SERVER]
            raise NoSuchSeriesError(f"history: no data is recorded for pool {pool!r}{nearest(pool, known)}")
        if metric not in self._series[pool] or metric in HIDDEN:
            known = [name for name in self._series[pool] if name not in HIDDEN]
            owner = f"pool {pool}" if pool else "the server"
            text = f"history: no data is recorded for metric {metric!r} of {owner}{nearest(metric, known)}"
            raise NoSuchSeriesError(text)

    def check_member(self, pool: str, member: str) -> None:
        """Raise NoSuchSeriesError if no pool has ever had this member."""
        known = {name for (names,) in self.run("SELECT names FROM layouts") for name in json.loads(names)}
        if member not in known:
            text = f"history: no data is recorded for member {member!r}{nearest(member, sorted(known))}"
            raise NoSuchSeriesError(text)

    def begins(self) -> Mapping[TierName, float]:
        """Return the Unix time at which each tier's data begins, keyed by tier."""
        found: dict[TierName, float] = {}
        for tier in TIERS:
            ((first,),) = self.run(f"SELECT min(id) FROM {tier.table}")
            if first is not None:
                found[tier.name] = (first >> SERIES_BITS) / 1000
        return found

    def chunks(self, tier: HistoryTier, start: float, end: float) -> Iterator[int]:
        """Yield the keys (ms) of all chunks that may contain moments from ``start`` to ``end``, in ascending order.

        Rows are fetched one at a time, so that SQLite reads only those that the caller uses.
        """
        after = key(max(0, int((start - tier.chunk) * 1000)), 0)
        last = key(max(0, int(end * 1000) + 1000), 0)  # a key may exceed the chunk's start by the recorder's salt
        statement = f"SELECT id FROM {tier.table} WHERE id >= ? LIMIT 1"
        while (row := self._connection.execute(statement, (after,)).fetchone()) is not None and row[0] < last:
            milliseconds = row[0] >> SERIES_BITS
            yield milliseconds
            after = key(milliseconds + 1, 0)

    def column(self, tier: HistoryTier, chunk: int, pool: str, name: str) -> StoredColumn | None:
        """Return one column of a chunk, or None if it is missing or damaged.

        Other columns of the chunk remain readable.
        """
        row = self._blob(tier, chunk, pool, name)
        try:
            return StoredColumn(self._names(row[0]), decode(row[1])) if row else None
        except ValueError:
            return None

    def texts(self, chunk: int, pool: str) -> list[tuple[int, int, str]]:
        """Return the alarms in a chunk as (member index, time index, text) tuples."""
        row = self._blob(RAW, chunk, pool, ALARM)
        try:
            return decode_texts(row[1]) if row else []
        except ValueError:
            return []

    def _blob(self, tier: HistoryTier, chunk: int, pool: str, name: str) -> tuple[int, bytes] | None:
        number = self._series.get(pool, {}).get(name)
        if number is None:
            return None
        statement = f"SELECT layout, data FROM {tier.table} WHERE id = ?"
        row: tuple[int, bytes] | None = self._connection.execute(statement, (key(chunk, number),)).fetchone()
        return row

    def _names(self, layout: int) -> tuple[str, ...]:
        if layout not in self._layouts:
            rows = self.run("SELECT names FROM layouts WHERE id = ?", (layout,))
            if not rows:
                raise ValueError("column without members")
            self._layouts[layout] = tuple(json.loads(rows[0][0]))
        return self._layouts[layout]

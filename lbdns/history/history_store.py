"""Creates and writes the SQLite file of the history, and limits its size.

The module must be used in a single thread.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lbdns.events.event_log import LoggedEvent
from lbdns.history.column_codec import decode
from lbdns.history.history_chunk import TIERS, ChunkColumn, HistoryTier
from lbdns_shared.errors import LbdnsError

APPLICATION: Final = 0x4C42_4831  # "LBH1", in the file's header, marks our files
VERSION: Final = 1
SERIES_BITS: Final = 20  # lowest bits of a key, for the column; the bits above are milliseconds, enough until 2248
BUSY: Final = 5.0  # s to wait for another writing process, whose transactions take milliseconds
_PAGE: Final = 16_384  # bytes; pages of 4096 would waste more (measured: 12 %)
_CHECKPOINT: Final = 128  # pages, 2 MB: at this size the log is written back
_PRUNED: Final = 2000  # number of rows deleted at a time, so that no other work waits for long
_FREE_SHARE: Final = 8  # while more than 1/8 of the file is free ...
_VACUUMED: Final = 256  # ... this many pages are returned at a time, 4 MB

_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, pool TEXT, name TEXT, UNIQUE (pool, name))",
    "CREATE TABLE IF NOT EXISTS layouts (id INTEGER PRIMARY KEY, names TEXT UNIQUE)",
    "CREATE TABLE IF NOT EXISTS pools (pool TEXT PRIMARY KEY, zone TEXT, policies TEXT)",
    *(f"CREATE TABLE IF NOT EXISTS {t.table} (id INTEGER PRIMARY KEY, layout INTEGER, data BLOB)" for t in TIERS),
    "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, time REAL, number INTEGER, kind TEXT, level TEXT,"
    " text TEXT, pool TEXT, member TEXT)",
    "CREATE INDEX IF NOT EXISTS events_time ON events (time)",
)


def check_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True if the file contains a history, or False if it is empty.

    Raises LbdnsError if the file contains other data or a history of another version.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION:
        if version != VERSION:
            raise LbdnsError(f"{path}: the history has version {version}, but this lbdns supports version {VERSION}")
        return True
    if application or version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise LbdnsError(f"{path}: this file is another program's database, not an lbdns history; move it elsewhere")
    return False


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether ``error`` shows that the file is damaged."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extended part
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def key(milliseconds: int, series: int) -> int:
    """Return the row key for one column of a chunk.

    If rows are sorted by key, all rows of a chunk are together, and the oldest chunk is first.
    """
    return milliseconds << SERIES_BITS | series


class HistoryStore:
    """The open history file. If a method raises sqlite3.Error or OSError, the caller must call ``close``."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises LbdnsError if an existing file is not a history file."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None)
        self._series: dict[tuple[str, str], int] = {}
        self._layouts: dict[tuple[str, ...], int] = {}
        try:
            self._prepare()
            self._inode = path.stat().st_ino
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        if not check_ours(self._connection, self.path):
            run(f"PRAGMA page_size = {_PAGE}")
            run("PRAGMA auto_vacuum = INCREMENTAL")
        run("PRAGMA journal_mode = WAL").fetchone()
        run("PRAGMA synchronous = NORMAL")  # a power failure loses the last seconds, but damages nothing
        run(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
        run(f"PRAGMA journal_size_limit = {_CHECKPOINT * _PAGE}")
        run("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            run(statement)
        run(f"PRAGMA application_id = {APPLICATION}")
        run(f"PRAGMA user_version = {VERSION}")
        run("COMMIT")

    @property
    def is_there(self) -> bool:
        """Whether the path still refers to the open file.

        A file that was deleted while it was open could grow unnoticed.
        """
        try:
            return self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    @property
    def bytes(self) -> int:
        """The total size of the file and its write-ahead log, in bytes."""
        total = 0
        for suffix in ("", "-wal"):
            with suppress(OSError):
                total += os.stat(f"{self.path}{suffix}").st_size
        return total

    def write(
        self,
        chunks: Iterable[tuple[HistoryTier, int, Iterable[ChunkColumn]]],
        events: Iterable[LoggedEvent],
        pools: Mapping[str, tuple[str, Mapping[str, str]]],
        replaced: Iterable[tuple[HistoryTier, int]] = (),
    ) -> None:
        """Write all data in one transaction. ``pools`` maps each new or changed pool to its zone and policies.

        Each chunk is a (tier, key in milliseconds, columns) tuple. A chunk replaces a stored chunk of the same tier
        with the same key. The stored chunks in ``replaced``, (tier, key in milliseconds) pairs, are deleted before.
        """
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            for tier, milliseconds in replaced:
                limits = key(milliseconds, 0), key(milliseconds + 1, 0)
                run(f"DELETE FROM {tier.table} WHERE id >= ? AND id < ?", limits)
            for tier, milliseconds, columns in chunks:
                rows = [(key(milliseconds, self._series_id(c)), self._layout_id(c.names), c.blob) for c in columns]
                self._connection.executemany(f"INSERT OR REPLACE INTO {tier.table} VALUES (?, ?, ?)", rows)
            self._connection.executemany(
                "INSERT INTO events (time, number, kind, level, text, pool, member) VALUES (?, ?, ?, ?, ?, ?, ?)",
                ((e.time, e.id, e.kind, e.level, e.text, e.pool, e.member) for e in events),
            )
            for pool, (zone, policies) in pools.items():
                run("INSERT OR REPLACE INTO pools VALUES (?, ?, ?)", (pool, zone, json.dumps(dict(policies))))
            run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise

    def values(self, tier: HistoryTier, milliseconds: int, pool: str, column: str) -> Sequence[float] | None:
        """Return the values of a column of a stored chunk, or None if it is missing or damaged."""
        number = self._series.get((pool, column))
        if number is None:
            return None
        statement = f"SELECT data FROM {tier.table} WHERE id = ?"
        row = self._connection.execute(statement, (key(milliseconds, number),)).fetchone()
        try:
            return decode(row[0]) if row else None
        except ValueError:
            return None

    def _series_id(self, column: ChunkColumn) -> int:
        run, name = self._connection.execute, (column.pool, column.column)
        if name not in self._series:
            run("INSERT OR IGNORE INTO series (pool, name) VALUES (?, ?)", name)
            (number,) = run("SELECT id FROM series WHERE pool = ? AND name = ?", name).fetchone()
            if number >> SERIES_BITS:
                raise sqlite3.DataError(f"the history is limited to {2**SERIES_BITS} different columns")
            self._series[name] = number
        return self._series[name]

    def _layout_id(self, names: tuple[str, ...]) -> int:
        if names not in self._layouts:
            run, text = self._connection.execute, (json.dumps(names),)
            run("INSERT OR IGNORE INTO layouts (names) VALUES (?)", text)
            (self._layouts[names],) = run("SELECT id FROM layouts WHERE names = ?", text).fetchone()
        return self._layouts[names]

    def prune(self, oldest: Mapping[str, float], oldest_event: float) -> None:
        """Delete some rows older than their table's limit in ``oldest`` (Unix time), and release free pages."""
        run = self._connection.execute
        limits = [(table, "id", key(max(0, round(time * 1000)), 0)) for table, time in oldest.items()]
        for table, column, limit in (*limits, ("events", "time", oldest_event)):
            expired = f"SELECT id FROM {table} WHERE {column} < ? ORDER BY {column} LIMIT {_PRUNED}"
            run(f"DELETE FROM {table} WHERE id IN ({expired})", (limit,))
        free, pages = run("PRAGMA freelist_count").fetchone()[0], run("PRAGMA page_count").fetchone()[0]
        if free > _VACUUMED and free * _FREE_SHARE > pages:
            # Run as a script, since a single statement would return only one page
            self._connection.executescript(f"PRAGMA incremental_vacuum({_VACUUMED})")

    def close(self) -> None:
        """Close the file without committing. Never raises."""
        with suppress(sqlite3.Error):
            self._connection.close()


def move_aside(path: Path) -> Path:
    """Rename a damaged file for later examination. An earlier damaged file is replaced. Raises OSError."""
    aside = path.with_name(f"{path.name}.damaged")
    os.replace(path, aside)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")
    return aside

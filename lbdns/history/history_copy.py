"""Copies the history file while the server writes to it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from lbdns.history.history_database import connect
from lbdns.history.history_store import check_ours
from lbdns_shared.errors import LbdnsError


def copy_history(path: Path, copy: Path) -> bool:
    """Write a consistent copy of the history at ``path`` to the new file ``copy``.

    Return False if nothing has been recorded yet. The function blocks on disk I/O; the server continues to write
    meanwhile. Raises LbdnsError if the history cannot be read, or the copy cannot be written.
    """
    try:
        with closing(connect(path)) as source:
            if not check_ours(source, path):
                return False
            _write_copy(source, copy)
    except sqlite3.Error as error:
        raise LbdnsError(f"{path}: cannot read the history: {error}; --no-history leaves it out") from None
    return True


def _write_copy(source: sqlite3.Connection, copy: Path) -> None:
    try:
        target = sqlite3.connect(copy, isolation_level=None)
    except sqlite3.Error as error:
        raise _not_written(copy, error) from None
    with closing(target):
        try:
            # All pages in one step: SQLite would start again whenever the server writes between two steps
            source.backup(target, pages=-1)
            # One file, without a write-ahead log
            target.execute("PRAGMA journal_mode = DELETE").fetchone()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
                raise _not_written(copy, error) from None
            raise


def _not_written(copy: Path, error: sqlite3.Error) -> LbdnsError:
    return LbdnsError(f"{copy}: cannot write the copy of the history: {error}")

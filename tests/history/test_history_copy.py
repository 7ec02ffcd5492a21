"""Tests of copying the history file. tests/backup/test_archive_writer.py copies it while it is written."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from lbdns.config.recording_sections import HistoryConfig
from lbdns.history.history_copy import copy_history
from lbdns.history.history_reader import HistoryReader
from lbdns.history.history_recorder import HistoryRecorder
from lbdns_shared.errors import LbdnsError
from tests.history.history_samples import BEGIN, fill, sample


def test_a_copy_has_the_same_series(tmp_path: Path) -> None:
    path, copy = tmp_path / "history.db", tmp_path / "copy.db"
    fill(HistoryRecorder(path, HistoryConfig()), [sample(second) for second in range(20)])
    assert copy_history(path, copy)
    asked = ("web", "answers", (), BEGIN, BEGIN + 20, 20)
    assert HistoryReader(copy).series(*asked).series == HistoryReader(path).series(*asked).series


def test_a_history_without_records(tmp_path: Path) -> None:
    (tmp_path / "history.db").touch()
    assert not copy_history(tmp_path / "history.db", tmp_path / "copy.db")


def test_the_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (id)")
    connection.close()
    with pytest.raises(LbdnsError, match="another program's database"):
        copy_history(path, tmp_path / "copy.db")


@pytest.mark.parametrize("companion", ["-wal", "-shm", "-journal"])
def test_sqlite_follows_no_link_beside_the_file(tmp_path: Path, companion: str) -> None:
    """``lbdns backup`` checks these files, but the server's user could create a link after the check."""
    path, elsewhere = tmp_path / "history.db", tmp_path / "elsewhere"
    fill(HistoryRecorder(path, HistoryConfig()), [sample(1)])
    for target in (elsewhere, tmp_path / "of-root"):
        (tmp_path / "of-root").write_text("unchanged")
        (tmp_path / f"history.db{companion}").unlink(missing_ok=True)
        (tmp_path / f"history.db{companion}").symlink_to(target)
        with contextlib.suppress(LbdnsError):
            copy_history(path, tmp_path / f"copy-{target.name}.db")
        assert not elsewhere.exists()
        assert (tmp_path / "of-root").read_text() == "unchanged"


def test_sqlite_opens_the_path_of_a_descriptor(tmp_path: Path) -> None:
    """This is why ``lbdns backup`` cannot pass SQLite a file that it has checked."""
    path = tmp_path / "history.db"
    fill(HistoryRecorder(path, HistoryConfig()), [sample(1)])
    with path.open("rb") as file, contextlib.closing(sqlite3.connect(f"/proc/self/fd/{file.fileno()}")) as connection:
        assert connection.execute("PRAGMA database_list").fetchall() == [(0, "main", str(path.resolve()))]


def test_a_copy_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    fill(HistoryRecorder(path, HistoryConfig()), [sample(1)])
    with pytest.raises(LbdnsError, match=r"copy.db: cannot write the copy"):
        copy_history(path, tmp_path / "missing" / "copy.db")

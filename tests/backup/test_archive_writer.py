"""Tests of writing archives: every file is consistent, and an existing file is never overwritten."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from lbdns.backup import archive_writer
from lbdns.backup.archive_writer import MAX_SMALL_FILE, new_file, write_archive
from lbdns.history.history_copy import copy_history
from lbdns.history.history_reader import HistoryReader
from lbdns.process.atomic_file import replace_file
from lbdns.process.state_lock import StateInUseError, exclusive
from lbdns_shared.errors import LbdnsError
from tests.backup.state_folders import NOW, SMALL_FILES, ZONES, archive_of, entries_of, make_state, record_history
from tests.history.history_samples import BEGIN


def test_the_archive_holds_every_file_with_its_checksum(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    archive, manifest = archive_of(state)
    assert (manifest.time, manifest.zones, manifest.left_out) == (NOW, ZONES, ())
    entries = {entry.name: (content, entry.mode) for entry, content in entries_of(archive)}
    assert next(iter(entries)) == "manifest.json"
    assert {name.removeprefix("state/"): found for name, found in entries.items() if "/" in name} == SMALL_FILES
    for file in manifest.files:
        content, _ = SMALL_FILES[file.name]
        assert (file.bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_the_history_is_copied_while_it_is_written(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    record_history(state)
    writing = sqlite3.connect(state / "history.db", isolation_level=None)
    with contextlib.closing(writing):
        writing.execute("BEGIN IMMEDIATE")
        writing.execute("DELETE FROM pools")
        archive, _ = archive_of(state)
        writing.execute("ROLLBACK")
    (content,) = [content for entry, content in entries_of(archive) if entry.name == "state/history.db"]
    copy = tmp_path / "copy.db"
    copy.write_bytes(content)
    series = HistoryReader(copy).series("web", "cpu_idle", (), BEGIN, BEGIN + 30, 30)
    assert (
        series.series == HistoryReader(state / "history.db").series("web", "cpu_idle", (), BEGIN, BEGIN + 30, 30).series
    )
    assert not list(tmp_path.glob("copy.db-*")), "one file is the whole history"


def test_the_history_can_be_left_out(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    record_history(state)
    _, manifest = archive_of(state, history=False)
    assert manifest.left_out == ("history.db",)
    assert "history.db" not in [file.name for file in manifest.files]


def test_a_damaged_history_is_named_with_the_way_out(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    (state / "history.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(LbdnsError, match=r"history.db: cannot read the history: .*; --no-history leaves it out"):
        archive_of(state)


def test_no_file_is_ever_torn(tmp_path: Path) -> None:
    """A file that is replaced all the time is in every archive either as it was or as it became."""
    state = make_state(tmp_path)
    texts, stop = (b"a" * 300_000, b"b" * 200_000), threading.Event()
    replace_file(state / "joined.json", texts[0])

    def replace() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            replace_file(state / "joined.json", texts[number % 2])

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(20):
            entries = {entry.name: content for entry, content in entries_of(archive_of(state)[0])}
            assert entries["state/joined.json"] in texts
    finally:
        stop.set()
        thread.join()


def test_nothing_to_back_up_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match="there is nothing to back up; is this the right directory"):
        write_archive(tmp_path, io.BytesIO(), tmp_path, ZONES, NOW)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("of root")
    (state / "joined.json").unlink()
    (state / "joined.json").symlink_to(secret)
    with pytest.raises(LbdnsError, match=r"joined.json: cannot read the file: Too many levels of symbolic links"):
        archive_of(state)


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    (state / "joined.json").unlink()
    os.mkfifo(state / "joined.json")
    with pytest.raises(LbdnsError, match="it is not a regular file"):
        archive_of(state)


@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
@pytest.mark.parametrize("name", ["history.db", "history.db-wal", "history.db-journal"])
def test_a_history_that_is_not_a_regular_file(tmp_path: Path, name: str, kind: str) -> None:
    """SQLite would wait for a writer of a pipe, and it would follow a link."""
    state = make_state(tmp_path)
    record_history(state)
    path = state / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "other.db")
    else:
        path.mkdir()
    with pytest.raises(LbdnsError) as error:
        archive_of(state)
    assert str(error.value) == (
        f"{path}: cannot read the history: it is not a regular file; --no-history leaves it out"
    )
    assert archive_of(state, history=False)[1].files


def test_a_file_that_does_not_fit_in_memory(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    os.truncate(state / "joined.json", MAX_SMALL_FILE)
    assert archive_of(state)[1].files
    os.truncate(state / "joined.json", MAX_SMALL_FILE + 1)
    with pytest.raises(LbdnsError, match=r"joined.json: cannot read the file: it has more than 64 MiB"):
        archive_of(state)


def test_no_backup_during_a_restore(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    with exclusive(state), pytest.raises(LbdnsError, match="'lbdns restore' is replacing its files; run this command"):
        archive_of(state)
    assert archive_of(state)


def test_no_restore_while_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = make_state(tmp_path)
    record_history(state)

    def copy(path: Path, copy: Path) -> bool:
        with pytest.raises(StateInUseError), exclusive(state):
            pass
        return copy_history(path, copy)

    with exclusive(state):
        pass  # it creates the lock file
    monkeypatch.setattr(archive_writer, "copy_history", copy)
    assert "history.db" in [file.name for file in archive_of(state)[1].files]
    with exclusive(state):
        pass


def test_a_backup_creates_no_lock_file(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    assert archive_of(state)
    assert sorted(os.listdir(state)) == sorted(SMALL_FILES)
    os.mkfifo(state / "lock")
    assert archive_of(state), "a lock file that cannot be opened does not matter"


def test_a_new_file_is_private_and_complete(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    with new_file(path) as (file, scratch):
        file.write(b"all")
        assert not path.exists()
        assert scratch.parent == tmp_path
    assert path.read_bytes() == b"all"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["archive"]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_an_existing_file_is_never_overwritten(tmp_path: Path, when: str) -> None:
    path = tmp_path / "archive"
    if when == "before":
        path.write_bytes(b"older")

    def write() -> None:
        with new_file(path) as (file, _):
            file.write(b"newer")
            path.write_bytes(b"older")

    with pytest.raises(LbdnsError, match="already exists"):
        write()
    assert path.read_bytes() == b"older"
    assert os.listdir(tmp_path) == ["archive"]


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_file(tmp_path / "archive"):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []

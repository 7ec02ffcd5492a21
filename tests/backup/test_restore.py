"""Tests of restoring archives: all files are replaced and the old ones kept, or nothing is changed."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import os
import shutil
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns import __version__
from lbdns.backup import restore
from lbdns.backup.manifest import ArchiveError
from lbdns.backup.restore import check_unused, restore_archive
from lbdns.process.state_format import FORMAT
from lbdns.process.state_lock import StateInUseError, StateLock
from lbdns_shared.errors import LbdnsError
from tests.backup.state_folders import NOW, SMALL_FILES, archive_of, content_of, make_state, record_history

KEPT = "before-restore-20270115T080000Z"


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    return archive_of(make_state(tmp_path / "old"))[0]


def restored(archive: bytes, state: Path) -> Path | None:
    return restore_archive(io.BytesIO(archive), state, NOW).kept


def test_into_an_empty_directory(archive: bytes, tmp_path: Path) -> None:
    state = tmp_path / "new"
    state.mkdir()
    assert restored(archive, state) is None
    assert content_of(state) == {name: content for name, (content, _) in SMALL_FILES.items()}
    for name, (_, mode) in SMALL_FILES.items():
        assert stat.S_IMODE((state / name).stat().st_mode) == mode, name


def test_previous_files_are_kept(archive: bytes, tmp_path: Path) -> None:
    state = make_state(tmp_path, b"newer")
    (state / "serials.json").write_bytes(b"not in the archive")
    (state / "history.db").write_bytes(b"a")
    (state / "history.db-wal").write_bytes(b"b")
    (state / "report.key").write_bytes(b"not the server's")
    assert restored(archive, state) == state / KEPT
    assert content_of(state) == {
        "report.key": b"not the server's",
        **{name: content for name, (content, _) in SMALL_FILES.items()},
        **{f"{KEPT}/{name}": content + b"newer" for name, (content, _) in SMALL_FILES.items()},
        f"{KEPT}/serials.json": b"not in the archive",
        f"{KEPT}/history.db": b"a",
        f"{KEPT}/history.db-wal": b"b",
    }
    assert restored(archive, state) == state / f"{KEPT}.2"


def test_a_history_that_was_left_out_stays(tmp_path: Path) -> None:
    old, state = make_state(tmp_path / "old"), make_state(tmp_path)
    record_history(old)
    record_history(state, seconds=50)
    before = (state / "history.db").read_bytes()
    restored(archive_of(old, history=False)[0], state)
    assert (state / "history.db").read_bytes() == before


def test_a_server_that_uses_the_directory(archive: bytes, tmp_path: Path) -> None:
    state = make_state(tmp_path)
    before, lock = content_of(state), StateLock()
    lock.take(state, "")
    with pytest.raises(StateInUseError, match="a running server, a backup or another restore uses"):
        restored(archive, state)
    assert content_of(state) == before
    lock.release()
    assert restored(archive, state)


def test_a_server_that_listens_on_the_control_socket(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    check_unused(path)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        check_unused(path)
        sock.listen(0)
        for _ in range(3):  # also when its queue is full
            with pytest.raises(StateInUseError, match="a running server listens on this control socket"):
                check_unused(path)
    check_unused(path)


@pytest.mark.parametrize("at", [0, 100, -300, -1])
def test_a_damaged_archive_changes_nothing(archive: bytes, tmp_path: Path, at: int) -> None:
    state = make_state(tmp_path, b"newer")
    before = content_of(state)
    with pytest.raises(ArchiveError):
        restored(archive[:at], state)
    assert content_of(state) == before
    assert sorted(os.listdir(state)) == sorted([*SMALL_FILES, "lock"])


def test_files_in_a_newer_format_are_refused(tmp_path: Path) -> None:
    old, state = make_state(tmp_path / "old"), make_state(tmp_path, b"newer")
    before = content_of(state)
    (old / "state-format").write_text(json.dumps({"format": FORMAT + 1, "program": "9.8.7"}))
    with pytest.raises(ArchiveError) as error:
        restored(archive_of(old)[0], state)
    assert str(error.value) == (
        f"lbdns '9.8.7' wrote its files in format {FORMAT + 1}, but lbdns {__version__} reads formats up to "
        f"{FORMAT}; install the newer version of lbdns first"
    )
    assert content_of(state) == before
    assert sorted(os.listdir(state)) == sorted([*SMALL_FILES, "lock"])
    (old / "state-format").write_text(json.dumps({"format": FORMAT, "program": "1"}))
    assert restored(archive_of(old)[0], state) == state / KEPT


def test_the_folder_of_a_killed_restore_is_removed(archive: bytes, tmp_path: Path) -> None:
    state, elsewhere = make_state(tmp_path), tmp_path / "elsewhere"
    for folder in (state / ".restore-abc", elsewhere):
        folder.mkdir()
        (folder / "joined.json").write_bytes(b"half")
    (state / ".restore-link").symlink_to(elsewhere)
    lock = StateLock()
    lock.take(state, "")
    with pytest.raises(StateInUseError):
        restored(archive, state)
    assert (state / ".restore-abc").exists(), "only a process with the exclusive lock removes it"
    lock.release()
    restored(archive, state)
    assert not (state / ".restore-abc").exists()
    assert (elsewhere / "joined.json").exists()


def test_files_that_exceed_the_free_space(archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = make_state(tmp_path, b"newer")
    before = content_of(state)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: _Usage)
    with pytest.raises(LbdnsError, match=r"the files need [0-9]+ bytes, but only 10 are free"):
        restored(archive, state)
    assert content_of(state) == before


class _Usage:
    """The usage of a disk that is almost full."""

    free = 10


@contextlib.contextmanager
def failing_rename(number: int, error: OSError) -> Iterator[None]:
    """Let the ``number``-th rename in a with block fail."""
    count, rename = 0, Path.rename

    def fail(path: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == number:
            raise error
        return rename(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        yield


@pytest.mark.parametrize("number", range(1, 2 * len(SMALL_FILES) + 1))
def test_a_failing_disk_loses_nothing(archive: bytes, tmp_path: Path, number: int) -> None:
    state = make_state(tmp_path, b"newer")
    before = content_of(state)
    failure = pytest.raises(LbdnsError, match="Input/output error; nothing has been changed")
    with failure, failing_rename(number, OSError(errno.EIO, "Input/output error")):
        restored(archive, state)
    assert content_of(state) == before
    assert sorted(os.listdir(state)) == sorted([*SMALL_FILES, "lock"])


def test_a_signal_does_not_interrupt_the_moves(archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = make_state(tmp_path, b"newer")
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        signal.raise_signal(signal.SIGINT)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    assert restored(archive, state) == state / KEPT
    assert (state / "joined.json").read_bytes() == SMALL_FILES["joined.json"][0]


def test_an_interrupted_restore_changes_nothing(
    archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = make_state(tmp_path, b"newer")
    before = content_of(state)

    def interrupted(stage: Path, manifest: object, *_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(restore, "_unpack", interrupted)
    with pytest.raises(KeyboardInterrupt):
        restored(archive, state)
    assert content_of(state) == before
    assert not list(state.glob(".restore-*"))


def test_a_state_directory_that_cannot_be_used(archive: bytes, tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match="missing/lock: cannot open the file: No such file or directory"):
        restored(archive, tmp_path / "missing")


def test_a_directory_in_the_place_of_a_file_is_an_error(archive: bytes, tmp_path: Path) -> None:
    state = make_state(tmp_path, b"newer")
    (state / "joined.json").unlink()
    (state / "joined.json").mkdir()
    before = content_of(state)
    with pytest.raises(LbdnsError, match="nothing has been changed"):
        restored(archive, state)
    assert content_of(state) == before


@given(st.data())
def test_a_manipulated_archive_is_restored_exactly_or_changes_nothing(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tar = bytearray(gzip.decompress(archive_of(make_state(folder / "old"))[0]))
        for _ in range(data.draw(st.integers(1, 3))):
            tar[data.draw(st.integers(0, len(tar) - 1))] = data.draw(st.integers(0, 255))
        state = make_state(folder, b"newer")
        before = content_of(state)
        try:
            kept = restored(gzip.compress(bytes(tar), 1), state)
        except LbdnsError:
            assert content_of(state) == before
            assert sorted(os.listdir(state)) == sorted([*SMALL_FILES, "lock"])
        else:
            assert kept
            assert {path.name: path.read_bytes() for path in state.iterdir() if path.name in SMALL_FILES} == {
                name: content for name, (content, _) in SMALL_FILES.items()
            }

"""Tests of the lock on the state directory: servers share it, and a restore excludes them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lbdns.process.state_lock import StateInUseError, StateLock, exclusive, not_restored
from lbdns_shared.errors import LbdnsError
from tests.needs import needs


def test_servers_share_it(tmp_path: Path) -> None:
    one, other = StateLock(), StateLock()
    one.take(tmp_path, "")
    other.take(tmp_path, "")
    for lock in (one, other):
        with pytest.raises(StateInUseError), exclusive(tmp_path):
            pass
        lock.release()
    with exclusive(tmp_path):
        pass


def test_no_server_starts_during_a_restore(tmp_path: Path) -> None:
    lock = StateLock()
    with exclusive(tmp_path):
        with pytest.raises(LbdnsError, match="'lbdns restore' is replacing its files"):
            lock.take(tmp_path, "")
        with pytest.raises(StateInUseError), exclusive(tmp_path):
            pass
    lock.take(tmp_path, "")
    lock.release()


def test_a_reload_changes_the_directory(tmp_path: Path) -> None:
    old, new, lock = tmp_path / "old", tmp_path / "new", StateLock()
    lock.take(old, "")
    with pytest.raises(KeyError), lock.changing_to(new, ""):
        raise KeyError
    assert not new.exists(), "a reload that fails changes nothing"
    new.mkdir()
    with exclusive(new), pytest.raises(StateInUseError), exclusive(old):
        pass
    with exclusive(new), pytest.raises(LbdnsError, match="is replacing its files"), lock.changing_to(new, ""):
        pass
    with lock.changing_to(new, ""), pytest.raises(StateInUseError), exclusive(old):
        pass
    with exclusive(old), pytest.raises(StateInUseError), exclusive(new):
        pass
    lock.release()


def test_a_server_runs_without_a_lock_if_there_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    StateLock().take(tmp_path / "file", "")
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    StateLock().take(tmp_path, "")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("kind", ["pipe", "directory", "link"])
def test_a_restore_needs_a_regular_lock_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "lock"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LbdnsError, match=f"{path}: cannot (open|lock) the file: ") as error, exclusive(tmp_path):
        pass
    assert not isinstance(error.value, StateInUseError)
    StateLock().take(tmp_path, "")  # does not block


def test_a_file_system_without_locks_is_not_a_running_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR, "NFS needs it"
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    failure = pytest.raises(LbdnsError, match="lock: cannot lock the file: No locks available")
    with failure as error, exclusive(tmp_path):
        pass
    assert not isinstance(error.value, StateInUseError)


def test_readers_keep_a_restore_away(tmp_path: Path) -> None:
    with not_restored(tmp_path):
        assert not (tmp_path / "lock").exists()
    refusal = pytest.raises(LbdnsError, match="is replacing its files; run this command afterwards")
    with exclusive(tmp_path), refusal, not_restored(tmp_path):
        pass
    refusal = pytest.raises(StateInUseError, match="a backup or another restore uses")
    with not_restored(tmp_path), not_restored(tmp_path), refusal, exclusive(tmp_path):
        pass
    with exclusive(tmp_path):
        pass


def test_the_lock_ends_with_the_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from lbdns.process.state_lock import StateLock\n"
        "StateLock().take(Path(sys.argv[1]), ''); print(flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout
        assert process.stdout.readline()
        with pytest.raises(StateInUseError), exclusive(tmp_path):
            pass
        process.kill()
    with exclusive(tmp_path):
        pass


@needs(root=True)
def test_it_belongs_to_the_servers_user() -> None:
    with tempfile.TemporaryDirectory() as folder:
        state, lock = Path(folder) / "state", StateLock()
        lock.take(state, "nobody")
        lock.release()
        found = (state / "lock").stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (65534, 0o600)
        assert os.stat(state).st_uid == 65534


@needs(root=True)
def test_an_existing_file_is_given_to_the_servers_user(tmp_path: Path) -> None:
    lock, path = StateLock(), tmp_path / "lock"
    path.touch(0o600)
    lock.take(tmp_path, "nobody")
    lock.release()
    assert path.stat().st_uid == 65534


@needs(root=True)
@pytest.mark.parametrize("kind", ["link", "hard link", "content", "pipe"])
def test_another_file_is_not_given_to_the_servers_user(tmp_path: Path, kind: str) -> None:
    state, secret = tmp_path / "state", tmp_path / "secret"
    state.mkdir()
    path = state / "lock"
    secret.touch(0o600)
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "hard link":
        path.hardlink_to(secret)
    elif kind == "content":
        path.write_text("of root")
    else:
        os.mkfifo(path)
    StateLock().take(state, "nobody")
    assert {file.stat().st_uid for file in (path, secret)} == {0}


@needs(root=True)
def test_a_reload_as_another_user_keeps_the_lock() -> None:
    """The lock file belongs to root, so the server's user could not open it again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        code = (
            "import os, sys; from pathlib import Path; from lbdns.process.state_lock import StateLock\n"
            "lock, folder = StateLock(), Path(sys.argv[1]); lock.take(folder, ''); os.setuid(65534)\n"
            "with lock.changing_to(folder, ''): pass\n"
            "print(flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline()
            with pytest.raises(StateInUseError), exclusive(folder):
                pass
        with exclusive(folder):
            pass


def test_a_reload_locks_a_file_that_has_been_replaced(tmp_path: Path) -> None:
    lock = StateLock()
    lock.take(tmp_path, "")
    (tmp_path / "lock").unlink()
    with lock.changing_to(tmp_path, ""):
        pass
    with pytest.raises(StateInUseError), exclusive(tmp_path):
        pass
    lock.release()

"""Tests of the lock on the state directory: servers share it, and a restore excludes them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lbdns.process.state_lock import StateInUseError, StateLock, exclusive
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

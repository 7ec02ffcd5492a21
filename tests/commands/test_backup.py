"""Tests of ``lbdns backup``: a private archive, nothing overwritten, and clear errors."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lbdns.cli import lbdns
from lbdns.command_line.run_command import run
from tests.backup.state_folders import SMALL_FILES, entries_of, make_state, record_history
from tests.needs import needs

CONFIG = '[server]\ncontrol = "control.sock"\nstate_dir = "state"\n[[zone]]\nname = "hobbit"\nfile = "hobbit.zone"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "lbdns.toml"
    path.write_text(CONFIG)
    record_history(make_state(tmp_path))
    return path


def backup(config: Path, *arguments: str) -> int:
    return run(lbdns, "lbdns", ["backup", "-c", str(config), *arguments])


def test_a_private_archive(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config.parent / "lbdns.tar.gz"
    assert backup(config, str(path)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith(f"{path}: 4 files (overrides.json, joined.json, report-sequences, history.db), ")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    names = {entry.name for entry, _ in entries_of(path.read_bytes())}
    assert names == {"manifest.json", "state/history.db", *(f"state/{name}" for name in SMALL_FILES)}
    assert sorted(os.listdir(config.parent)) == ["lbdns.tar.gz", "lbdns.toml", "state"]
    before = path.read_bytes()
    assert backup(config, str(path)) == 1
    assert f"{path}: already exists; nothing has been written" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_standard_output(config: Path) -> None:
    command = [sys.executable, "-m", "lbdns", "backup", "-c", str(config), "--no-history", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stderr == b""
    assert {entry.name for entry, _ in entries_of(done.stdout)} == {
        "manifest.json", *(f"state/{name}" for name in SMALL_FILES),
    }  # fmt: skip


def test_a_reader_that_has_gone(config: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open(write_end, "wb") as pipe:
        command = [sys.executable, "-m", "lbdns", "backup", "-c", str(config), "-"]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "-: cannot write the backup: Broken pipe; nothing has been written\n"


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("missing/lbdns.tar.gz", "cannot write the backup: No such file or directory"),
        ("lbdns.toml/x", "cannot write the backup: Not a directory"),
        ("state", "already exists"),
    ],
)
def test_a_file_that_cannot_be_written(
    config: Path, capsys: pytest.CaptureFixture[str], target: str, what: str
) -> None:
    assert backup(config, str(config.parent / target)) == 1
    assert f"{config.parent / target}: {what}" in capsys.readouterr().err


@needs(root=True)
def test_root_writes_to_the_folder_of_another_user(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = config.parent / "home"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    path = folder / "lbdns.tar.gz"
    assert backup(config, str(path)) == 0
    assert capsys.readouterr().out.startswith(f"{path}: 4 files (")
    found = path.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o600)
    assert len(entries_of(path.read_bytes())) == 5
    assert os.listdir(folder) == ["lbdns.tar.gz"]
    assert backup(config, str(path)) == 1
    assert f"{path}: already exists; nothing has been written" in capsys.readouterr().err


@needs(root=True)
def test_temporary_files_of_root_are_where_no_other_user_could_interfere(config: Path) -> None:
    folder = config.parent / "home"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    command = [sys.executable, "-m", "lbdns", "backup", "-c", str(config), "-"]
    done = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "set TMPDIR to a folder that only root can change" in done.stderr


@needs(programs=("mount",), root=True, namespaces=True)
def test_a_full_disk_leaves_no_file(config: Path) -> None:
    disk = config.parent / "disk"
    disk.mkdir()
    script = (
        'mount -t tmpfs -o size=8k tmpfs "$1" && "$2" -m lbdns backup -c "$3" "$1/lbdns.tar.gz"; status=$?\n'
        'ls -A "$1"; exit $status'
    )
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(disk), sys.executable, str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_directory_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "lbdns.toml"
    config.write_text(CONFIG)
    assert backup(config, str(tmp_path / "a")) == 1
    assert f"{tmp_path / 'state'}: there is no such directory; is {config} the right file?" in capsys.readouterr().err
    (tmp_path / "state").mkdir()
    assert backup(config, str(tmp_path / "a")) == 1
    assert "there is nothing to back up" in capsys.readouterr().err
    config.write_text("[sever]\n")
    assert backup(config, str(tmp_path / "a")) == 2

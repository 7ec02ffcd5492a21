"""Tests of ``lbdns restore``: lists, refuses and restores archives, with clear errors."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lbdns.cli import lbdns
from lbdns.command_line.run_command import run
from lbdns.process.state_lock import StateLock
from tests.backup.state_folders import (
    SMALL_FILES,
    archive_of,
    content_of,
    file_entry,
    make_state,
    manifest_entry,
    packed,
    record_history,
)
from tests.commands.test_backup import CONFIG
from tests.needs import needs

SMALL = {name: content for name, (content, _) in SMALL_FILES.items()}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "lbdns.tar.gz"
    path.write_bytes(archive_of(make_state(tmp_path / "old"))[0])
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "lbdns.toml"
    path.write_text(CONFIG)
    return path


def restore(config: Path, *arguments: object) -> int:
    return run(lbdns, "lbdns", ["restore", "-c", str(config), *map(str, arguments)])


def test_into_a_new_directory(config: Path, archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert restore(config, archive) == 0
    state = config.parent / "state"
    assert content_of(state) == SMALL
    printed = capsys.readouterr()
    assert printed.err == ""
    files = "restored 3 files (overrides.json, joined.json, report-sequences)"
    assert printed.out.startswith(f"{state}: {files} from a backup of lbdns ")
    assert printed.out.endswith(", 2027-01-15T08:00:00Z\n")


def test_the_previous_files_are_named(config: Path, archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = make_state(config.parent, b"newer")
    config.write_text(CONFIG.replace("hobbit", "shire"))
    assert restore(config, archive) == 0
    printed = capsys.readouterr()
    (kept,) = state.glob("before-restore-*")
    assert printed.out.endswith(f"the previous files are in {kept}\n")
    assert f"{archive} is from a server for the zones hobbit, but {config} serves shire" in printed.err
    assert content_of(kept) == {name: content + b"newer" for name, content in SMALL.items()}


def test_a_list(tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = make_state(tmp_path)
    record_history(state)
    path = tmp_path / "with-history.tar.gz"
    path.write_bytes(archive_of(state, history=False)[0])
    before = content_of(tmp_path)
    assert restore(config, "--list", path) == 0
    assert content_of(tmp_path) == before
    origin, zones, *lines = capsys.readouterr().out.splitlines()
    assert origin.endswith("2027-01-15T08:00:00Z")
    assert (zones, lines[-1]) == ("zones: hobbit", "every checksum is correct")
    assert [line.split()[:3] for line in lines[:-1]] == [
        ["overrides.json", "18", "bytes"],
        ["joined.json", "16", "bytes"],
        ["report-sequences", "17", "bytes"],
        ["history.db", "left", "out"],
    ]
    path.write_bytes(path.read_bytes()[:-9])
    assert restore(config, "--list", path) == 1
    assert capsys.readouterr().err == f"{path}: the archive is incomplete: it ends too early\n"


def test_control_characters_are_not_printed(tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = (
        b'{"program": "lbdns", "format": 1, "version": "\\u001b[2J", "host": "\\u0007", "time": 1, '
        b'"zones": ["\\u001b]0;x"], "files": [{"name": "joined.json", "bytes": 0, "sha256": "'
        + hashlib.sha256().hexdigest().encode()
        + b'", "mode": 384}], "left_out": []}'
    )
    path = tmp_path / "hostile.tar.gz"
    path.write_bytes(packed([manifest_entry(manifest), file_entry("joined.json", b"")]))
    assert restore(config, "--list", path) == 0
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())


def test_standard_input(config: Path, archive: Path) -> None:
    command = [sys.executable, "-m", "lbdns", "restore", "-c", str(config), "-"]
    with archive.open("rb") as source:
        subprocess.run(["sh", "-c", 'cat | "$@"', "sh", *command], stdin=source, check=True, capture_output=True)
    assert content_of(config.parent / "state") == SMALL


@pytest.mark.parametrize("sign", ["lock", "control"])
def test_a_running_server(config: Path, archive: Path, capsys: pytest.CaptureFixture[str], sign: str) -> None:
    state, lock = make_state(config.parent, b"newer"), StateLock()
    before = content_of(state)
    with socket.socket(socket.AF_UNIX) as sock:
        if sign == "lock":
            lock.take(state, "")
        else:
            sock.bind(str(config.parent / "control.sock"))
            sock.listen()
        assert restore(config, archive) == 1
        assert restore(config, "--list", archive) == 0
        lock.release()
    assert "stop it first (systemctl stop lbdns, or lbdns-collector). Nothing has been changed" in (
        capsys.readouterr().err
    )
    assert content_of(state) == before


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the archive is incomplete: it ends too early"),
        (b"text", "not an archive written by 'lbdns backup', or damaged"),
        (packed([manifest_entry(b'{"program": "lbdns", "format": 99, "version": "9"}')]), "reads formats up to 1"),
    ],
)
def test_what_is_no_archive(
    config: Path, archive: Path, capsys: pytest.CaptureFixture[str], content: bytes, what: str
) -> None:
    state = make_state(config.parent, b"newer")
    before = content_of(state)
    archive.write_bytes(content)
    assert restore(config, archive) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"{archive}: ")
    assert what in message
    assert message.endswith("; nothing has been changed\n")
    assert content_of(state) == before


def test_a_file_that_cannot_be_read(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert restore(config, config.parent / "missing") == 1
    assert capsys.readouterr().err == f"{config.parent / 'missing'}: cannot read the file: No such file or directory\n"
    assert restore(config, config.parent) == 1
    assert "cannot read the" in capsys.readouterr().err


@needs(root=True)
@pytest.mark.parametrize("named_by", ["user", "directory"])
def test_the_files_belong_to_the_servers_user(named_by: str) -> None:
    """The command gives up root, so it runs in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        config, archive = folder / "lbdns.toml", folder / "lbdns.tar.gz"
        archive.write_bytes(archive_of(make_state(folder / "old"))[0])
        archive.chmod(0o600)
        config.write_text(
            CONFIG.replace("[server]\n", '[server]\nuser = "nobody"\n' if named_by == "user" else "[server]\n")
        )
        if named_by == "directory":
            (folder / "state").mkdir()
            os.chown(folder / "state", 65534, 65534)
        command = [sys.executable, "-m", "lbdns", "restore", "-c", str(config), str(archive)]
        subprocess.run(command, check=True, capture_output=True)
        found = {path.name: path.stat() for path in (folder / "state").iterdir()}
        assert {entry.st_uid for entry in found.values()} == {65534}
        assert {entry: found[entry].st_mode & 0o777 for entry in SMALL} == {
            entry: mode for entry, (_, mode) in SMALL_FILES.items()
        }


@needs(programs=("mount",), root=True, namespaces=True)
def test_a_full_disk_loses_nothing(config: Path, tmp_path: Path) -> None:
    """The files fit on the disk by their sizes, but not by the blocks that they need."""
    page = os.sysconf("SC_PAGE_SIZE")
    old, archive = make_state(tmp_path / "large"), tmp_path / "large.tar.gz"
    for name in SMALL:
        (old / name).write_bytes(os.urandom(page + 1))
    archive.write_bytes(archive_of(old)[0])
    disk = config.parent / "state"
    disk.mkdir()
    make_state(tmp_path / "current", b"newer")
    script = (
        f'mount -t tmpfs -o size={7 * page} tmpfs "$1" && cp "$4"/* "$1" && "$2" -m lbdns restore -c "$3" "$5"\n'
        'echo "$?"; cp -r "$1" "$1.after"'
    )
    command = ["unshare", "--mount", "sh", "-c", script, "sh"]
    command += map(str, (disk, sys.executable, config, tmp_path / "current" / "state", archive))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n", done
    assert "No space left on device; nothing has been changed" in done.stderr
    assert content_of(tmp_path / "state.after") == {name: content + b"newer" for name, content in SMALL.items()}

"""Tests of making root file systems: what remains if mmdebstrap succeeds, fails or is interrupted."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import lbdns_packaging.root_file_systems as module
from lbdns_packaging.root_file_systems import PackagingError, RootFileSystem

ROOT = RootFileSystem("bookworm", ("python3",))


class FakeMmdebstrap:
    """Writes the archive, and then exits with ``status`` or raises ``interruption``."""

    def __init__(self, status: int = 0, interruption: BaseException | None = None) -> None:
        self.status, self.interruption = status, interruption
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        Path(command[-2]).write_text("archive")
        if self.interruption:
            raise self.interruption
        return subprocess.CompletedProcess(command, self.status, "", "E: no mirror")


def use(program: FakeMmdebstrap, monkeypatch: pytest.MonkeyPatch) -> FakeMmdebstrap:
    monkeypatch.setattr(module, "run_program", program)
    monkeypatch.setattr(module, "require_root", lambda: None)
    return program


def test_an_archive_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = use(FakeMmdebstrap(), monkeypatch)
    assert ROOT.archive(tmp_path) == ROOT.archive(tmp_path) == tmp_path / f"{ROOT.name}.tar"
    assert [path.name for path in tmp_path.iterdir()] == [f"{ROOT.name}.tar"]
    (command,) = program.commands
    assert command[:2] == ["unshare", "--mount"]
    assert "--include=python3" in command


def test_a_failure_has_mmdebstraps_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakeMmdebstrap(status=1), monkeypatch)
    with pytest.raises(PackagingError, match="for bookworm:\nE: no mirror"):
        ROOT.archive(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakeMmdebstrap(interruption=KeyboardInterrupt()), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        ROOT.archive(tmp_path)
    assert list(tmp_path.iterdir()) == []

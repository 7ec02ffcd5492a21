"""Tests of the search for programs in PATH and system folders, and of the error for a missing program."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools import installed_programs


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return two folders, one of which is in PATH and the other among the system folders."""
    found = tmp_path / "bin", tmp_path / "sbin"
    for folder in found:
        folder.mkdir()
    monkeypatch.setenv("PATH", str(found[0]))
    monkeypatch.setattr(installed_programs, "_SYSTEM_FOLDERS", str(found[1]))
    return found


def test_path_comes_first_then_the_folders_of_the_system(folders: tuple[Path, Path]) -> None:
    for folder in reversed(folders):
        assert not (folder / "unbound").exists()
        (folder / "unbound").touch(0o755)
        assert installed_programs.path_of("unbound") == installed_programs.find("unbound") == str(folder / "unbound")
        assert installed_programs.is_there("unbound")


def test_a_missing_program(folders: tuple[Path, Path]) -> None:
    assert not installed_programs.is_there("unbound")
    with pytest.raises(LbdnsError, match=f"unbound: not found in PATH or {folders[1]}; run `make deps-lab` as root"):
        installed_programs.path_of("unbound")

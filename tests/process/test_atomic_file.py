"""Tests of replacing files: readers see one whole file, and killed processes leave nothing for long."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lbdns.process.atomic_file import remove_leftovers, replace_file

NAME = "state"


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("content", ["new\n", b"new\n"])
def test_the_new_file_replaces_the_old_one(tmp_path: Path, content: str | bytes, sync: bool) -> None:
    path = tmp_path / NAME
    path.write_text("old, and longer\n")
    with path.open() as reader:
        replace_file(path, content, 0o600, sync)
        assert reader.read() == "old, and longer\n", "a reader of the old file can read all of it"
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == [NAME]


def test_an_error_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / NAME
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [NAME]


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in (f".{NAME}.abc", f".{NAME}.def", ".other.abc"))
    for path in (old, new, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (1.0, 1.0))
    remove_leftovers(tmp_path / NAME)
    assert sorted(tmp_path.iterdir()) == sorted([new, other])

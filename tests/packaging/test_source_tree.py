"""Tests of the copy of the source tree from which artefacts are built."""

from __future__ import annotations

from pathlib import Path

import pytest

import lbdns
from lbdns_packaging.source_tree import copy_source, normalise, source_date_epoch, version


def test_the_version_is_that_of_the_server() -> None:
    assert version() == lbdns.__version__


def test_a_given_time_precedes_that_of_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert source_date_epoch() > 1_700_000_000
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "7")
    assert source_date_epoch() == 7


def test_the_copy_has_the_tracked_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    copy = copy_source(tmp_path / "copy")
    assert (copy / "agent" / "pyproject.toml").stat().st_mtime == 1_000_000_000
    assert not (copy / ".venv").exists()
    assert not (copy / ".git").exists()


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    for name, mode in (("run", 0o700), ("read", 0o660)):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to("nowhere")
    normalise(tmp_path, 5)
    assert oct((tmp_path / "run").stat().st_mode) == "0o100755"
    assert oct((tmp_path / "read").stat().st_mode) == "0o100644"
    assert (tmp_path / "link").lstat().st_mtime == 5

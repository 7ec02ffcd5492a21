"""Tests of the check that no other user can replace a folder in which root writes files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lbdns.backup.trusted_folder import trusted_folder
from lbdns_shared.errors import LbdnsError
from tests.needs import needs

INSTEAD = "write elsewhere"


@needs(root=True)
@pytest.mark.parametrize("mode", [0o755, 0o700, 0o1777, 0o1775])
def test_a_folder_that_only_root_can_replace(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    folder.parent.chmod(mode)
    assert trusted_folder(folder, INSTEAD) == folder
    (tmp_path / "link").symlink_to(folder)
    assert trusted_folder(tmp_path / "link", INSTEAD) == folder


@needs(root=True)
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize(
    ("owner", "mode", "why"),
    [
        (65534, 0o755, "user ID 65534 owns this folder"),
        (65534, 0o1777, "user ID 65534 owns this folder"),
        (0, 0o775, "other users may write to this folder (mode 0775)"),
        (0, 0o757, "other users may write to this folder (mode 0757)"),
    ],
)
def test_a_folder_that_others_could_replace(tmp_path: Path, depth: int, owner: int, mode: int, why: str) -> None:
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    wrong = (folder, *folder.parents)[depth]
    os.chown(wrong, owner, owner)
    wrong.chmod(mode)
    (tmp_path / "link").symlink_to(folder)
    for path in (folder, tmp_path / "link"):
        with pytest.raises(LbdnsError) as error:
            trusted_folder(path, INSTEAD)
        assert str(error.value).startswith(f"{wrong}: root does not write to {folder}, because {why}")
        assert str(error.value).endswith(f"; {INSTEAD}")


def test_another_user_may_write_to_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    tmp_path.chmod(0o777)
    assert trusted_folder(tmp_path, INSTEAD) == tmp_path.resolve()


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        trusted_folder(tmp_path / "missing", INSTEAD)

"""Tests of files that root creates in a folder of another user, who may interfere at any time."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns.backup.foreign_folder import new_foreign_file
from lbdns_shared.errors import LbdnsError
from tests.needs import needs

INSTEAD = "write elsewhere"
USER = 65534


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of another user in a folder of root."""
    path = tmp_path / "home"
    path.mkdir()
    os.chown(path, USER, USER)
    return path


def write(path: Path, content: bytes = b"new") -> None:
    with new_foreign_file(path, 0o600, INSTEAD) as file:
        file.write(content)


@needs(root=True)
def test_the_file_belongs_to_root_and_has_no_name_until_it_is_complete(home: Path) -> None:
    with new_foreign_file(home / "archive", 0o600, INSTEAD) as file:
        file.write(b"all")
        assert os.listdir(home) == []
    found = (home / "archive").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o600)
    assert (home / "archive").read_bytes() == b"all"
    assert os.listdir(home) == ["archive"]


@needs(root=True)
def test_a_failure_leaves_no_file_and_no_descriptor(home: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(KeyboardInterrupt), new_foreign_file(home / "archive", 0o600, INSTEAD):
        raise KeyboardInterrupt
    assert os.listdir(home) == []
    assert os.listdir("/proc/self/fd") == before


@needs(root=True)
@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder"])
def test_nothing_is_overwritten(home: Path, tmp_path: Path, kind: str) -> None:
    """The other user puts something at the path while root writes."""
    secret, path = tmp_path / "secret", home / "archive"
    secret.write_text("of root")

    def interfere() -> None:
        if kind == "file":
            path.write_text("older")
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(secret if kind == "link" else tmp_path / "missing")

    def write_slowly() -> None:
        with new_foreign_file(path, 0o600, INSTEAD) as file:
            file.write(b"new")
            interfere()

    with pytest.raises(FileExistsError):
        write_slowly()
    assert secret.read_text() == "of root"
    assert not (tmp_path / "missing").exists()
    assert kind != "file" or path.read_text() == "older"


@needs(root=True)
def test_a_folder_that_is_replaced_meanwhile_gets_no_file(home: Path, tmp_path: Path) -> None:
    of_root, moved = tmp_path / "of-root", home / "moved"
    of_root.mkdir()
    (home / "sub").mkdir()
    with new_foreign_file(home / "sub" / "archive", 0o600, INSTEAD) as file:
        (home / "sub").rename(moved)
        (home / "sub").symlink_to(of_root)
        file.write(b"new")
    assert os.listdir(of_root) == []
    assert os.listdir(moved) == ["archive"], "the folder that was opened"


@needs(root=True)
@pytest.mark.parametrize("name", ["link", "link/sub", "sub/link", "archive-folder/link"])
def test_links_in_the_folder_are_not_followed(home: Path, tmp_path: Path, name: str) -> None:
    of_root = tmp_path / "of-root"
    (of_root / "sub").mkdir(parents=True)
    link = home / Path(*name.split("/")[: name.split("/").index("link") + 1])
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(of_root)
    with pytest.raises(LbdnsError, match="root follows no symbolic links to or in another user's folder; write else"):
        write(home / name / "archive")
    assert os.listdir(of_root) == ["sub"]
    assert os.listdir(of_root / "sub") == []


@needs(root=True)
def test_links_of_root_are_followed_to_folders_of_root_only(home: Path, tmp_path: Path) -> None:
    (tmp_path / "above").symlink_to(tmp_path)
    write(tmp_path / "above" / "home" / "archive")
    assert (home / "archive").read_bytes() == b"new"
    (tmp_path / "to-home").symlink_to(home)
    with pytest.raises(LbdnsError, match="to-home is not a folder; root follows no symbolic links"):
        write(tmp_path / "to-home" / "other")


@needs(root=True)
def test_the_folder_above_is_not_followed(home: Path) -> None:
    (home / "sub").mkdir()
    with pytest.raises(LbdnsError, match=r"root does not follow '\.\.' in another user's folder; write elsewhere"):
        write(home / "sub" / ".." / "archive")


@needs(root=True)
def test_a_missing_folder(home: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write(home / "missing" / "archive")


@contextlib.contextmanager
def without_unnamed_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let open() fail as on a file system that cannot create a file without a name."""
    real = os.open

    def failing(path: str, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *arguments, dir_fd=dir_fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", failing)
        yield


@needs(root=True)
def test_a_file_system_without_unnamed_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        without_unnamed_files(monkeypatch),
        pytest.raises(LbdnsError, match="cannot write safely to another user's folder on this file system; write else"),
    ):
        write(home / "archive")
    assert os.listdir(home) == []

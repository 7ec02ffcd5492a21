"""Tests of writing a new farm's files: nothing is overwritten, and an error leaves nothing behind."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lbdns.setup.farm_folder import EXAMPLE_BEGINS, PRIVATE, FileToWrite, write_files
from lbdns_shared.errors import LbdnsError

FILES = {"lbdns.toml": FileToWrite("[server]\n"), "report.key": FileToWrite("secret\n", PRIVATE)}


def write(folder: Path) -> Path | None:
    return write_files(folder, FILES, -1, -1)


def test_files_and_modes(tmp_path: Path) -> None:
    folder = tmp_path / "etc" / "lbdns"
    assert write(folder) is None
    assert {path.name: path.read_text() for path in folder.iterdir()} == {n: f.text for n, f in FILES.items()}
    assert stat.S_IMODE((folder / "report.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "lbdns.toml").stat().st_mode) == 0o644


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("dangling", [False, True])
def test_a_file_that_is_there_stays_and_nothing_is_written(tmp_path: Path, name: str, dangling: bool) -> None:
    if dangling:
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    else:
        (tmp_path / name).write_text("mine")
    with pytest.raises(LbdnsError, match=f"{name}: already exists; nothing has been written.* --dir"):
        write(tmp_path)
    assert os.listdir(tmp_path) == [name]
    assert dangling or (tmp_path / name).read_text() == "mine"


def test_the_package_s_example_is_renamed(tmp_path: Path) -> None:
    example = f"{EXAMPLE_BEGINS} on the loopback\n"
    (tmp_path / "lbdns.toml").write_text(example)
    (tmp_path / "lbdns.toml.example").write_text("an older one")
    moved = write(tmp_path)
    assert moved == tmp_path / "lbdns.toml.example.2"
    assert moved.read_text() == example
    assert (tmp_path / "lbdns.toml").read_text() == FILES["lbdns.toml"].text
    assert (tmp_path / "lbdns.toml.example").read_text() == "an older one"


def test_an_error_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lbdns.toml").write_text(f"{EXAMPLE_BEGINS}\n")

    def full(descriptor: int, mode: int) -> None:
        if mode == PRIVATE:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(LbdnsError, match="cannot write the file: No space left on device; nothing has been written"):
        write(tmp_path)
    assert os.listdir(tmp_path) == ["lbdns.toml"]
    assert (tmp_path / "lbdns.toml").read_text() == f"{EXAMPLE_BEGINS}\n"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LbdnsError, match=r"cannot write the file: .*nothing has been written"):
        write(tmp_path / "file" / "lbdns")


def test_how_the_package_s_example_begins() -> None:
    packaged = Path(__file__).parents[2] / "packaging" / "etc" / "lbdns" / "lbdns" / "lbdns.toml"
    assert packaged.read_text().startswith(EXAMPLE_BEGINS)

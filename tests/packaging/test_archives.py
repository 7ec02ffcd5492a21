"""Tests of archives whose bytes depend only on their files."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from lbdns_packaging.archives import repack_tar_gz, zip_bytes

EPOCH = 1_700_000_000


def test_a_zip_has_the_files_with_one_time_and_mode() -> None:
    content = zip_bytes({"b": b"2" * 100, "a/c": b""}, EPOCH)
    entries = zipfile.ZipFile(io.BytesIO(content)).infolist()
    assert [entry.filename for entry in entries] == ["b", "a/c"]
    assert {entry.date_time for entry in entries} == {(2023, 11, 14, 22, 13, 20)}
    assert {entry.external_attr >> 16 for entry in entries} == {0o100644}
    assert content == zip_bytes({"b": b"2" * 100, "a/c": b""}, EPOCH)


def test_a_time_before_1980_is_possible() -> None:
    (entry,) = zipfile.ZipFile(io.BytesIO(zip_bytes({"a": b""}, 0))).infolist()
    assert entry.date_time == (1980, 1, 1, 0, 0, 0)


@pytest.mark.parametrize("reverse", [True, False])
def test_a_source_archive_depends_on_names_modes_and_contents_alone(tmp_path: Path, reverse: bool) -> None:
    folder = tmp_path / "lbdns-1"
    folder.mkdir()
    for name, mode in (("run", 0o750), ("read", 0o600)):
        (folder / name).write_text(name)
        (folder / name).chmod(mode)
        os.utime(folder / name, (reverse, reverse))
    path = tmp_path / "archive.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file in sorted(folder.iterdir(), reverse=reverse):
            archive.add(file, f"lbdns-1/{file.name}")
    repack_tar_gz(path, EPOCH)
    with tarfile.open(path) as archive:
        found = [(member.name, member.mode, member.mtime, member.uid, member.uname) for member in archive]
        content = archive.extractfile("lbdns-1/run")
        assert content
        assert content.read() == b"run"
    assert found == [("lbdns-1/read", 0o644, EPOCH, 0, ""), ("lbdns-1/run", 0o755, EPOCH, 0, "")]
    assert path.read_bytes()[4:8] == EPOCH.to_bytes(4, "little"), "the time in the header of gzip"

"""Tests of recorded files: header, rotation, repair after a crash, other headers, other programs, and errors."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.recorder.csv_file import CsvFile, FileInUseError
from lbdns_agent.recorder.rotation import Rotation

HEADER = "time,major,minor,device,reads"
DAILY = Rotation(daily=True)


def row(day: int = 1, number: int = 0, device: str = "sda") -> str:
    return f"2026-03-{day:02d}T12:00:00.000000+01:00,8,0,{device},{number}"


def text_of(path: Path) -> str:
    return path.read_bytes().decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "diskstats.csv"


def test_the_header_is_written_once(path: Path) -> None:
    for number in range(3):
        file = CsvFile(path, Rotation())
        file.append(HEADER, [row(number=2 * number), row(number=2 * number + 1)])
        file.append(HEADER, [row(number=100)])
        file.close()
    lines = text_of(path).splitlines()
    assert lines.count(HEADER) == 1
    assert [line.rpartition(",")[2] for line in lines[1:]] == ["0", "1", "100", "2", "3", "100", "4", "5", "100"]


def test_an_empty_file_gets_a_header(path: Path) -> None:
    path.touch()
    CsvFile(path, Rotation()).append(HEADER, [row()])
    assert text_of(path) == f"{HEADER}\n{row()}\n"


def test_rotation_by_day(path: Path) -> None:
    file = CsvFile(path, DAILY)
    for day in (1, 1, 2, 3, 3):
        file.append(HEADER, [row(day)])
    file.close()
    found = {name.name: text_of(name) for name in path.parent.iterdir()}
    assert found == {
        "diskstats.2026-03-01T120000.csv": f"{HEADER}\n{row(1)}\n{row(1)}\n",
        "diskstats.2026-03-02T120000.csv": f"{HEADER}\n{row(2)}\n",
        "diskstats.csv": f"{HEADER}\n{row(3)}\n{row(3)}\n",
    }


def test_rotation_by_day_after_a_restart(path: Path) -> None:
    for day in (1, 2):
        file = CsvFile(path, DAILY)
        file.append(HEADER, [row(day)])
        file.close()
    assert text_of(path.with_name("diskstats.2026-03-01T120000.csv")) == f"{HEADER}\n{row(1)}\n"


def test_rotation_by_size_keeps_every_row_and_the_limit(path: Path) -> None:
    file = CsvFile(path, Rotation(max_bytes=500))
    for number in range(50):
        file.append(HEADER, [row(number=number)])
    file.close()
    files = list(path.parent.iterdir())
    assert len(files) == 5
    assert all(name.stat().st_size <= 500 for name in files)
    lines = [line for name in files for line in text_of(name).splitlines()]
    assert lines.count(HEADER) == len(files)
    assert sorted(int(line.rpartition(",")[2]) for line in lines if line != HEADER) == list(range(50))
    assert path.with_name("diskstats.2026-03-01T120000-2.csv") in files, "all files begin in the same second"


def test_rows_larger_than_the_limit_do_not_rotate_for_ever(path: Path) -> None:
    file = CsvFile(path, Rotation(max_bytes=10))
    file.append(HEADER, [row()])
    assert [name.name for name in path.parent.iterdir()] == ["diskstats.csv"]


@pytest.mark.parametrize(
    ("left", "kept"),
    [
        (f"{HEADER}\n{row()}\n{row()[:-8]}", f"{HEADER}\n{row()}\n"),
        (f"{HEADER}\n{row()}\n\0\0\0\0", f"{HEADER}\n{row()}\n"),
        (f"{HEADER}\n{row()}\n" + 200_000 * "\0", f"{HEADER}\n{row()}\n"),
        (f"{HEADER}\n{row()[:10]}", f"{HEADER}\n"),
        (HEADER[:10], f"{HEADER}\n"),
        (HEADER, f"{HEADER}\n"),
        ("\0\0\0", f"{HEADER}\n"),
    ],
)
def test_an_incomplete_last_row_is_removed(left: str, kept: str, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(left.encode())
    CsvFile(path, Rotation()).append(HEADER, [row(2)])
    assert text_of(path) == f"{kept}{row(2)}\n"
    assert [name.name for name in path.parent.iterdir()] == ["diskstats.csv"]
    assert "removed an incomplete last row" in caplog.text


@given(st.integers(0, 3), st.integers(0, 40))
def test_wherever_a_crash_cuts_the_file_rows_stay_whole(rows: int, cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "diskstats.csv"
        whole = "".join(f"{line}\n" for line in [HEADER, *(row(1, number) for number in range(rows))])
        path.write_bytes(whole.encode()[: max(5, len(whole) - cut)])
        file = CsvFile(path, Rotation())
        file.append(HEADER, [row(2)])
        file.close()
        lines = text_of(path).splitlines()
        assert lines[0] == HEADER
        assert lines[-1] == row(2)
        assert lines[1:-1] == [row(1, number) for number in range(len(lines) - 2)]


@pytest.mark.parametrize(
    ("content", "renamed"),
    [
        (f"{HEADER},writes\n{row()},7\n", "diskstats.2026-03-01T120000.csv"),
        (f"{HEADER},writes\n", "diskstats.2026-01-01T"),
        ("something else, without a newline", "diskstats.2026-01-01T"),
        ("\nsomething else\n", "diskstats.2026-01-01T"),
        ("a,b\nnot a time,2\n", "diskstats.2026-01-01T"),
    ],
)
def test_headers_are_never_mixed(content: str, renamed: str, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text(content)
    os.utime(path, (1_767_268_800.0, 1_767_268_800.0))  # noon UTC on 1 January 2026
    CsvFile(path, Rotation()).append(HEADER, [row(2)])
    assert text_of(path) == f"{HEADER}\n{row(2)}\n"
    (other,) = (name for name in path.parent.iterdir() if name != path)
    assert other.name.startswith(renamed)
    assert text_of(other) == content
    assert f"renamed to {other.name}, because its header differs" in caplog.text


def test_a_header_that_changes_while_recording(path: Path) -> None:
    file = CsvFile(path, Rotation())
    file.append(HEADER, [row(1)])
    file.append(f"{HEADER},writes", [f"{row(2)},5"])
    file.append(f"{HEADER},writes", [f"{row(3)},6"])
    assert text_of(path) == f"{HEADER},writes\n{row(2)},5\n{row(3)},6\n"


@pytest.mark.parametrize("deed", ["move", "remove", "truncate"])
def test_other_programs_may_rotate_the_file(deed: str, path: Path) -> None:
    file = CsvFile(path, Rotation())
    file.append(HEADER, [row(1)])
    if deed == "move":
        path.rename(path.with_name("old"))
    elif deed == "remove":
        path.unlink()
    else:
        os.truncate(path, 0)
    file.append(HEADER, [row(2)])
    assert text_of(path) == f"{HEADER}\n{row(2)}\n"
    if deed == "move":
        assert text_of(path.with_name("old")) == f"{HEADER}\n{row(1)}\n"


def test_two_recorders_do_not_share_a_file(path: Path) -> None:
    first, second = CsvFile(path, Rotation()), CsvFile(path, Rotation())
    first.append(HEADER, [row(1)])
    with pytest.raises(FileInUseError, match="another recorder is writing to this file"):
        second.append(HEADER, [row(1)])
    first.close()
    second.append(HEADER, [row(2)])
    assert text_of(path) == f"{HEADER}\n{row(1)}\n{row(2)}\n"


def test_a_file_system_without_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    CsvFile(path, Rotation()).append(HEADER, [row(1)])
    assert text_of(path) == f"{HEADER}\n{row(1)}\n"


def test_what_is_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        CsvFile(tmp_path / "fifo", Rotation()).append(HEADER, [row()])


class FullDisk:
    """Replaces os.write: ``room`` more bytes can be written, the last ones by a short write as on a real disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 10**9
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, fd: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(fd, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 1, 10, len(row()), len(row()) + 1, 2 * len(row()) + 1])
def test_a_full_disk_leaves_whole_rounds(room: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch)
    file = CsvFile(path, Rotation())
    file.append(HEADER, [row(1)])
    disk.room = room
    with pytest.raises(OSError, match="No space left"):
        file.append(HEADER, [row(2), row(2, device="sdb")])
    assert text_of(path) == f"{HEADER}\n{row(1)}\n"
    disk.room = 10**9
    file.append(HEADER, [row(3)])
    assert text_of(path) == f"{HEADER}\n{row(1)}\n{row(3)}\n"


@pytest.mark.parametrize("room", [0, 7, len(HEADER) + 1, len(HEADER) + 8])
def test_a_disk_that_is_full_from_the_start(room: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch)
    disk.room = room
    file = CsvFile(path, Rotation())
    with pytest.raises(OSError, match="No space left"):
        file.append(HEADER, [row(1)])
    assert text_of(path) == ""
    disk.room = 10**9
    file.append(HEADER, [row(2)])
    assert text_of(path) == f"{HEADER}\n{row(2)}\n"


def test_a_row_that_could_not_be_removed_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch)
    file = CsvFile(path, Rotation())
    file.append(HEADER, [row(1)])
    disk.room = 10
    with monkeypatch.context() as patched:

        def fail(fd: int, size: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        patched.setattr(os, "ftruncate", fail)
        with pytest.raises(OSError, match="No space left"):
            file.append(HEADER, [row(2)])
    disk.room = 10**9
    file.append(HEADER, [row(3)])
    assert text_of(path) == f"{HEADER}\n{row(1)}\n{row(3)}\n"

"""Checks that noisy neighbours exit at their time limit, or earlier at the end of their with block."""

from __future__ import annotations

import contextlib
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from lbdns_tools.lab.loads.noisy_neighbours import (
    BURNERS,
    burner_command,
    burners,
    filesystem,
    shell_command,
    shells,
    writer_command,
    writers,
)
from tests.needs import needs


@needs(programs=("timeout",))
def test_a_burner_takes_a_processor_and_ends_by_itself() -> None:
    begun = time.monotonic()
    done = subprocess.run(burner_command(0.3), check=False, timeout=60)
    assert done.returncode == 124  # timeout(1): the time was over
    assert time.monotonic() - begun >= 0.3


@needs(programs=("timeout", "dd"))
def test_a_writer_writes_the_same_file_again_and_ends_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "a file's name"
    sizes = [0]  # it is empty for a moment whenever it begins anew
    while max(sizes) == 0:  # a busy machine may not let it begin before its time is over
        with subprocess.Popen(writer_command(2, file)) as writer:
            while writer.poll() is None:
                sizes.append(file.stat().st_size if file.exists() else 0)
                time.sleep(0.01)
        assert writer.returncode == 124
    assert max(sizes) <= 4 * 2**20


@needs(programs=("timeout", "grep"))
def test_a_shell_compiles_and_searches_again_and_again(tmp_path: Path) -> None:
    folder, searched = tmp_path / "a shell's folder", False
    compiled: set[int] = set()  # inodes of the same module's byte code, which is replaced each time
    command = shell_command(600, folder)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as shell:
        try:
            while not (searched and len(compiled) > 1):
                assert shell.poll() is None, "the time was over, or the compiler failed"
                compiled |= {file.stat().st_ino for file in folder.rglob("message.*.pyc")}
                searched = searched or "grep" in _programs_below(shell.pid)
                time.sleep(0.005)
        finally:
            shell.terminate()
            output, _ = shell.communicate()
    assert output == b""


def _programs_below(pid: int) -> set[str]:
    names = set()
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            names.add(process.name())
    return names


@dataclass
class _Running:
    name: str
    heard: list[str]

    def stop(self) -> None:
        self.heard.append(f"{self.name} stopped")


@dataclass
class _Lab:
    folder: Path
    heard: list[str] = field(default_factory=list)

    def run_in(self, machine: str, name: str, *command: str) -> _Running:
        assert command[0] == "timeout"
        self.heard.append(f"{name} on {machine}")
        if name.startswith("writer"):
            Path(command[-1]).write_bytes(b"0")
        if name.startswith("shell"):
            (self.folder / "shells" / name / "email").mkdir(parents=True)
        return _Running(name, self.heard)


def test_burners_are_stopped_whatever_happens(tmp_path: Path) -> None:
    lab = _Lab(tmp_path)

    def measure() -> None:
        with burners(cast(Any, lab), "bilbo", 5.0):
            assert lab.heard == [f"burner{n}-bilbo on bilbo" for n in range(1, BURNERS + 1)]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure()
    assert len([line for line in lab.heard if line.endswith("stopped")]) == BURNERS


def test_writers_leave_no_file(tmp_path: Path) -> None:
    lab = _Lab(tmp_path)
    with writers(cast(Any, lab), ("bilbo", "frodo"), 5.0):
        assert sorted(file.name for file in (tmp_path / "writers").iterdir()) == ["bilbo", "frodo"]
    assert list((tmp_path / "writers").iterdir()) == []
    assert lab.heard[-1] == "writer-bilbo stopped"


def test_shells_leave_no_byte_code(tmp_path: Path) -> None:
    lab = _Lab(tmp_path)
    with shells(cast(Any, lab), "bilbo", 2, 5.0):
        names = sorted(folder.name for folder in (tmp_path / "shells").iterdir())
        assert names == ["shell1-bilbo", "shell2-bilbo"]
    assert list((tmp_path / "shells").iterdir()) == []
    assert [line for line in lab.heard if line.endswith("stopped")] == ["shell2-bilbo stopped", "shell1-bilbo stopped"]


def test_the_file_system_of_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert filesystem(Path("/proc/sys")) == "proc"
    mounts = [("/", "ext4"), ("/run", "ext2"), ("/run", "tmpfs"), ("/run/lock", "ramfs")]
    found = [SimpleNamespace(mountpoint=point, fstype=kind) for point, kind in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: found)
    assert filesystem(Path("/run/x/1")) == "tmpfs"
    assert filesystem(Path("/runner")) == "ext4"
    found.clear()
    assert filesystem(Path("/run")) == ""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lbdns_agent.kernel_files import CHUNK, KernelFile, ProcFiles, read_once


def test_a_file_is_read_whole_however_long(tmp_path: Path) -> None:
    text = os.urandom(3 * CHUNK + 17)
    (tmp_path / "file").write_bytes(text)
    assert read_once(str(tmp_path / "file")) == text
    assert KernelFile(tmp_path / "file").read() == text


def test_it_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    file = KernelFile(path)
    assert file.read() == b"one"
    path.write_text("second")
    assert file.read() == b"second"
    file.close()
    assert file.read() == b"second"


def test_a_file_of_the_kernel_is_read_whole() -> None:
    file = KernelFile("/proc/self/mountinfo")
    assert file.read() == Path("/proc/self/mountinfo").read_bytes()
    assert file.read() == Path("/proc/self/mountinfo").read_bytes()


def test_a_file_whose_owner_is_gone_raises_and_no_other_is_read_in_its_place() -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    file = KernelFile(f"/proc/{child}/stat")
    assert file.read()
    os.waitpid(child, 0)
    with pytest.raises(OSError, match="No such"):
        file.read()


def test_a_round_reads_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("one")
    proc = ProcFiles(tmp_path)
    assert proc.read("stat") == b"one"
    (tmp_path / "stat").write_text("two")
    assert proc.read("stat") == b"one"
    proc.start_round()
    assert proc.read("stat") == b"two"

"""Tests of how a virtual machine is prepared, and of what its script's output means. QEMU itself does not run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import lbdns_machines.virtual_machine as module
from lbdns_machines.host_check import HostError
from lbdns_machines.machine import MachineError
from lbdns_machines.virtual_machine import check_programs, qemu_command, run_in_virtual_machine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for folder in ("boot", "etc/systemd/system", "root"):
        (root / folder).mkdir(parents=True)
    for name in ("vmlinuz-6.1", "initrd.img-6.1"):
        (root / "boot" / name).touch()
    return root


class FakePrograms:
    """mke2fs, and a QEMU whose script prints ``output``, or that takes too long if ``output`` is None."""

    def __init__(self, output: str | None) -> None:
        self.output = output

    def __call__(self, command: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
        files = [Path(word.removeprefix("file:")) for word in command if word.startswith("file:")]
        if files:
            files[0].write_text("booting\nKernel panic\n")
            if self.output is None:
                raise subprocess.TimeoutExpired(command, 1.0)
            files[1].write_text(self.output)
        return subprocess.CompletedProcess(command, 0)


def test_the_machine_boots_its_own_kernel(root: Path, tmp_path: Path) -> None:
    command = qemu_command(root, tmp_path / "disk", tmp_path / "console", tmp_path / "output")
    assert command[command.index("-kernel") + 1] == str(root / "boot" / "vmlinuz-6.1")
    assert command[command.index("-initrd") + 1] == str(root / "boot" / "initrd.img-6.1")
    (root / "boot" / "vmlinuz-6.12").touch()
    with pytest.raises(MachineError, match="exactly one kernel"):
        qemu_command(root, tmp_path / "disk", tmp_path / "console", tmp_path / "output")


def test_a_script_that_succeeds(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_program", FakePrograms('{"a": 1}\r\nmeasure: done\r\n'))
    (tmp_path / "tool").write_text("content")
    assert run_in_virtual_machine(root, "./tool\n", {"tool": tmp_path / "tool"}, tmp_path) == '{"a": 1}\n'
    assert (root / "root" / "tool").read_text() == "content"
    script = root / "root" / "measure.sh"
    assert script.read_text().endswith("cd /root\n./tool\nprintf 'measure: done\\n'\n")
    assert script.stat().st_mode & 0o100
    assert not (tmp_path / "disk").exists()


@pytest.mark.parametrize("output", [None, "", "half of the out"])
def test_a_script_that_fails(output: str | None, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_program", FakePrograms(output))
    with pytest.raises(MachineError, match="did not succeed\nbooting\nKernel panic"):
        run_in_virtual_machine(root, "false\n", {}, tmp_path)


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(HostError, match=r"qemu-system-x86_64 not found: run 'apt-get install .*qemu-system-x86'"):
        check_programs()

"""Tests of the check whether the host can boot machines: the empty disk, and the reasons why it cannot."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lbdns_machines.boot_check import check_boot, last_line, write_disk
from lbdns_machines.control_groups import ControlGroups
from lbdns_machines.host_check import HostError
from lbdns_machines.machine_network import MachineNetwork


class FakeGroups(ControlGroups):
    """Control groups that exist only by name."""

    def make(self, machine: str) -> list[Path]:
        return [Path(f"/groups/{machine}/cgroup.procs")]


def run(end: Callable[[list[str]], subprocess.CompletedProcess[str]], folder: Path) -> list[str]:
    """Check with a program runner that returns what ``end`` returns; return the command."""
    commands: list[list[str]] = []

    def runner(command: list[str], *, limit: float) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        assert (folder / "etc/systemd/system/boot-check.service").exists()
        return end(command)

    check_boot(MachineNetwork(), FakeGroups(), folder, runner)
    return commands[0]


def test_a_host_that_boots_its_own_systemd_can_boot_machines(tmp_path: Path) -> None:
    command = run(lambda command: subprocess.CompletedProcess(command, 0, "", ""), tmp_path / "disk")
    assert {"--boot", "--bind-ro=/usr", f"--directory={tmp_path / 'disk'}"} <= set(command)
    assert "/groups/boot-check/cgroup.procs" in command[2]
    assert not (tmp_path / "disk").exists()


def missing(command: list[str]) -> subprocess.CompletedProcess[str]:
    raise FileNotFoundError("no sh")


def slow(command: list[str]) -> subprocess.CompletedProcess[str]:
    raise subprocess.TimeoutExpired("nspawn", 60)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda command: subprocess.CompletedProcess(command, 1, "", "a\nFailed to mount: denied\n"), "mount: denied"),
        (lambda command: subprocess.CompletedProcess(command, 1, "\x1b[0;31mFreezing.\x1b[0m\n\n", ""), "Freezing."),
        (missing, "no sh"),
        (slow, "timed out after 60 seconds"),
    ],
)
def test_a_host_that_cannot_gives_the_reason(
    end: Callable[[list[str]], subprocess.CompletedProcess[str]], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(HostError, match=f"cannot boot an empty machine: .*{reason}"):
        run(end, tmp_path / "disk")
    assert not (tmp_path / "disk").exists()


def test_the_disk_has_the_hosts_links_and_mount_points_for_its_folders(tmp_path: Path) -> None:
    host = tmp_path / "host"
    for name in ("usr", "lib", "home"):
        (host / name).mkdir(parents=True)
    (host / "bin").symlink_to("usr/bin")
    disk = tmp_path / "disk"
    assert write_disk(disk, host) == [host / "usr", host / "lib"]
    assert (disk / "bin").readlink() == Path("usr/bin")
    assert list((disk / "usr").iterdir()) == []
    assert not (disk / "home").exists()
    assert "Requires=boot-check.service" in (disk / "etc/systemd/system/default.target").read_text()


@pytest.mark.parametrize(
    ("console", "line"), [("", "no output"), ("one\n\x1b[0;31mtwo\x1b[0m\r\n\n", "two"), ("\x1b[2J", "no output")]
)
def test_the_reason_is_the_last_line(console: str, line: str) -> None:
    assert last_line(console) == line

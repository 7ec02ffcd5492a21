"""Tests of what a later run removes after an earlier one was killed: names, processes, groups and namespaces."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from lbdns_machines.control_groups import ControlGroups, remove_groups
from lbdns_machines.leftovers import abandoned, remove_leftovers, remove_temporary_folders, runs_elsewhere
from lbdns_machines.machine_network import MachineNetwork
from lbdns_packaging.program_runs import temporary_folder

ALIVE = 17


def is_alive(process: int) -> bool:
    return process == ALIVE


@pytest.mark.parametrize(
    ("name", "is_abandoned"),
    [
        ("lbdns-machines-16", True),
        ("lbdns-machines-17", False),
        ("lbdns-machines-", False),
        ("lbdns-machines-16.scope", False),
        ("my-lbdns-machines-16", False),
        ("lbdns-lab-16", False),
    ],
)
def test_only_runs_without_a_process_are_abandoned(name: str, is_abandoned: bool) -> None:
    assert abandoned([name], is_alive) == [name] * is_abandoned


def test_other_processes_are_alive() -> None:
    assert runs_elsewhere(os.getppid())
    assert not runs_elsewhere(os.getpid()), "a killed run had the ID that this process has now"


def test_groups_and_namespaces_of_killed_runs_are_removed(tmp_path: Path) -> None:
    groups, namespaces = tmp_path / "cgroup", tmp_path / "netns"
    for path in ("lbdns-machines-16/ns/init.scope", "lbdns-machines-17/ns", "user.slice"):
        (groups / path).mkdir(parents=True)
    namespaces.mkdir()
    for name in ("lbdns-machines-15", "lbdns-machines-16", "lbdns-machines-17", "other"):
        (namespaces / name).touch()
    deleted: list[str] = []
    found = remove_leftovers(namespaces, [groups, tmp_path / "missing"], is_alive, deleted.append)
    assert found == ["lbdns-machines-15", "lbdns-machines-16"]
    assert deleted == ["lbdns-machines-15", "lbdns-machines-16"]
    assert sorted(path.name for path in groups.iterdir()) == ["lbdns-machines-17", "user.slice"]


def test_temporary_folders_of_killed_runs_are_removed(tmp_path: Path) -> None:
    for name in ("lbdns-packaging-16-a_1", "lbdns-packaging-17-a_1", "lbdns-packaging-old", "other-16-a_1"):
        (tmp_path / name / "below").mkdir(parents=True)
    assert remove_temporary_folders(tmp_path, is_alive) == ["lbdns-packaging-16-a_1"]
    left = ["lbdns-packaging-17-a_1", "lbdns-packaging-old", "other-16-a_1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_a_killed_process_leaves_a_folder_that_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as folder:
        assert remove_temporary_folders(tmp_path, lambda process: True) == []
        assert remove_temporary_folders(tmp_path, lambda process: process != os.getpid()) == [folder.name]


def test_a_namespace_that_remains_does_not_end_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lbdns-machines-16").touch()

    def refuse(name: str) -> None:
        raise OSError("busy")

    assert remove_leftovers(tmp_path, [], is_alive, refuse) == ["lbdns-machines-16"]
    assert "the network namespace lbdns-machines-16 of a killed run remains: busy" in capsys.readouterr().err


def test_processes_in_a_group_are_killed(tmp_path: Path) -> None:
    """A group is a folder that can be removed only when no process is left; here, its list of processes is a file."""
    processes = tmp_path / "run" / "ns" / "cgroup.procs"
    processes.parent.mkdir(parents=True)
    processes.write_text("0\n16\n")
    killed: list[tuple[int, int]] = []

    def kill(process: int, number: int) -> None:
        killed.append((process, number))
        processes.unlink()

    remove_groups([tmp_path / "run"], kill)
    assert killed == [(16, signal.SIGKILL)], "0 stands for a process that this one cannot see"
    assert list(tmp_path.iterdir()) == []


def test_a_later_run_recognises_the_names(tmp_path: Path) -> None:
    network, groups = MachineNetwork(), ControlGroups()
    names = {network.name, *(folder.name for folder in groups._folders)}
    assert abandoned(names, lambda process: False) == sorted(names)
    assert abandoned(names, lambda process: process == os.getpid()) == []

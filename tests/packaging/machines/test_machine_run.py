"""Tests of the start of a run: which failures are the host's, and which are failures of lbdns's machines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lbdns_machines.__main__ as command
from lbdns_machines.host_check import HostError
from lbdns_machines.machine import MachineError
from lbdns_machines.machine_farm import MachineFarm
from lbdns_machines.machine_plans import QUICK
from lbdns_machines.machine_run import FAILURES, MachineRun
from lbdns_machines.step_report import RunAbortedError, StepReport
from lbdns_machines.time_limit import TimeLimitReached
from lbdns_packaging.root_file_systems import MirrorError, PackagingError, RootFileSystem

CONSOLE = "ns: systemd-nspawn ended with status 1\nWelcome to Debian!\nFreezing execution."


def failing(error: Exception) -> Callable[..., None]:
    def fail(*arguments: object) -> None:
        raise error

    return fail


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MachineRun:
    """Return a run whose machines are made and booted by functions that do nothing."""
    monkeypatch.setattr(RootFileSystem, "archive", lambda self, cache: cache / self.name)
    monkeypatch.setattr(MachineFarm, "unpack", lambda self: None)
    monkeypatch.setattr(MachineFarm, "boot", lambda self: "all")
    return MachineRun(MachineFarm(QUICK, tmp_path, tmp_path), tmp_path, StepReport(FAILURES))


def test_the_machines_are_booted(run: MachineRun, tmp_path: Path) -> None:
    run.boot(QUICK, tmp_path)
    assert [result.name for result in run.report.results] == [
        "root file system of bookworm", "unpack the root file systems", "boot all machines",
    ]  # fmt: skip


def test_without_debians_mirror_the_host_cannot_prepare_machines(
    run: MachineRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RootFileSystem, "archive", failing(MirrorError("E: no mirror")))
    with pytest.raises(HostError, match="E: no mirror"):
        run.boot(QUICK, tmp_path)


def test_every_other_failure_of_mmdebstrap_fails(
    run: MachineRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RootFileSystem, "archive", failing(PackagingError("E: no such package")))
    with pytest.raises(RunAbortedError):
        run.boot(QUICK, tmp_path)
    assert [result.error for result in run.report.failed] == ["E: no such package"]


@pytest.mark.parametrize(("method", "error"), [("unpack", OSError("disk full")), ("boot", MachineError(CONSOLE))])
def test_a_machine_that_does_not_boot_is_a_failure(
    method: str, error: Exception, run: MachineRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MachineFarm, method, failing(error))
    with pytest.raises(RunAbortedError):
        run.boot(QUICK, tmp_path)
    assert [result.error for result in run.report.failed] == [str(error)]


def test_the_command_fails_with_the_end_of_the_console(
    run: MachineRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host can boot its own systemd, but not one of the machines."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(command, "check_host", lambda: None)
    monkeypatch.setattr(MachineFarm, "__enter__", lambda self: self)
    monkeypatch.setattr(MachineFarm, "__exit__", lambda self, *error: None)
    monkeypatch.setattr(MachineFarm, "boot", failing(MachineError(CONSOLE)))
    assert command.main(["quick", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "FAILED: boot all machines\n" in printed
    assert CONSOLE in printed
    assert "skipped" not in printed


def test_a_host_that_cannot_boot_anything_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(command, "check_host", lambda: None)
    monkeypatch.setattr(MachineFarm, "__enter__", failing(HostError("cannot boot an empty machine: denied")))
    assert command.main(["quick", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "machines: skipped: cannot boot an empty machine: denied\n"


def test_a_host_that_prepares_too_slowly_is_skipped(
    run: MachineRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def boot(farm: MachineFarm) -> str:
        raise TimeLimitReached("preparing machines and packages takes longer than 300 s")

    monkeypatch.setattr(command, "check_host", lambda: None)
    monkeypatch.setattr(MachineFarm, "__enter__", lambda self: self)
    monkeypatch.setattr(MachineFarm, "__exit__", lambda self, *error: None)
    monkeypatch.setattr(MachineFarm, "boot", boot)
    assert command.main(["quick", "--out", str(tmp_path)]) == 0
    assert "machines: skipped: preparing machines and packages takes longer than 300 s\n" in capsys.readouterr().out

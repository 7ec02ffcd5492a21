"""Tests of the upgrade steps, with a machine that answers commands from a table: order, versions and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lbdns_machines.upgrade_steps as module
from lbdns_machines.control_groups import ControlGroups
from lbdns_machines.machine import Machine, MachineError
from lbdns_machines.machine_farm import MachineFarm
from lbdns_machines.machine_network import MachineNetwork
from lbdns_machines.machine_plans import QUICK
from lbdns_machines.machine_run import FAILURES, MachineRun
from lbdns_machines.step_report import StepReport
from lbdns_machines.upgrade_steps import UpgradedServer, check_upgrades, refuse_downgrade
from lbdns_packaging.newer_packages import newer_packages
from lbdns_packaging.source_tree import version
from lbdns_tools.bench.dns.windowed_load import QueryTally

NEWER, OTHER_FORMAT = newer_packages(version())


class FakeServer(Machine):
    """Installs packages as dpkg would, and remembers the commands."""

    def __init__(self, folder: Path, *, refuses: bool = True, keeps_override: bool = True) -> None:
        super().__init__(QUICK[0], folder, MachineNetwork(), ControlGroups(), folder / "log")
        self.refuses, self.keeps_override = refuses, keeps_override
        self.installed = (version(), "1")
        self.drained = False
        self.commands: list[str] = []

    def run(self, command: str, *, limit: float = 0, check: bool = True) -> str:
        self.commands.append(command)
        if "apt-get install" in command:
            self.install(command.split("./")[1])
        if "lbdns drain" in command:
            self.drained = True
        if "dpkg-query" in command:
            return "-".join(self.installed) + "~deb12"
        if "lbdns --version" in command:
            return f"lbdns {self.installed[0]}\nnative extension: installed\n"
        if "lbdns status --json" in command:
            members = [{"name": "gandalf.example.net", "state": "drained" if self.drained else "usable"}]
            return json.dumps({"pools": [{"members": members}]})
        return ""

    def install(self, package: str) -> None:
        newer = {f"newer/{each.name}": (each.version, each.revision) for each in (NEWER, OTHER_FORMAT)}
        if package not in newer and self.installed == newer["newer/other-format.deb"] and self.refuses:
            raise MachineError("exit status 100 from apt-get: lbdns: this version reads formats up to 1")
        self.installed = newer.get(package, (version(), "1"))
        self.drained = self.drained and self.keeps_override


class FakeLoad:
    """A load whose queries are all answered, or none of them."""

    answered = 10

    def __init__(self, client: Machine, server: str, name: str, rate: float) -> None:
        self.tally = QueryTally(sent=10, answered=self.answered, lost=10 - self.answered)

    def __enter__(self) -> FakeLoad:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def run_steps(machine: FakeServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> StepReport:
    """Run all steps on ``machine``; return the report."""
    monkeypatch.setattr(module, "LoadFromMachine", FakeLoad)
    monkeypatch.setattr(module, "make_newer_packages", lambda package, folder, version: [folder / "newer.deb"])
    monkeypatch.setattr(MachineRun, "server_package", lambda self, machine: folder / f"lbdns_{version()}.deb")
    farm = MachineFarm(QUICK, folder, folder)
    farm.machines.update(ns=machine, client=machine)
    run = MachineRun(farm, folder, StepReport(FAILURES))
    check_upgrades(run, "ns", "www.example.net", "gandalf")
    return run.report


def test_every_step_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = FakeServer(tmp_path)
    report = run_steps(machine, tmp_path, monkeypatch)
    assert report.failed == []
    assert [result.name for result in report.results] == [
        "ns: prepare upgrades", "ns: upgrade under load", "ns: reload under load", "ns: restart under load",
        "ns: downgrade under load", "ns: upgrade of the state format under load", "ns: refused downgrade under load",
        "ns: removed and installed again",
    ]  # fmt: skip
    assert machine.installed == (OTHER_FORMAT.version, OTHER_FORMAT.revision)
    text = "\n".join(machine.commands)
    order = [
        "lbdns drain gandalf", "newer/newer.deb", "systemctl restart lbdns", "newer/other-format.deb", "apt-get remove",
        "systemctl is-enabled lbdns", "lbdns undrain gandalf",
    ]  # fmt: skip
    places = [text.index(command) for command in order]
    assert places == sorted(places)


def test_a_lost_query_fails_every_step_under_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLoad, "answered", 9)
    report = run_steps(FakeServer(tmp_path), tmp_path, monkeypatch)
    assert [result.name for result in report.failed] == [
        result.name for result in report.results if "under load" in result.name
    ]
    assert all("9 were answered, 1 lost" in result.error for result in report.failed)


def test_an_override_that_is_lost_fails_the_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = run_steps(FakeServer(tmp_path, keeps_override=False), tmp_path, monkeypatch)
    assert report.failed[0].name == "ns: upgrade under load"
    assert report.failed[0].error == "ns: gandalf must be drained, but is 'usable'"


def server(machine: Machine, folder: Path) -> UpgradedServer:
    return UpgradedServer(machine, machine, "www.example.net", "gandalf", folder / "lbdns.deb")


def test_a_downgrade_that_is_not_refused_is_an_error(tmp_path: Path) -> None:
    machine = FakeServer(tmp_path, refuses=False)
    machine.installed = (OTHER_FORMAT.version, OTHER_FORMAT.revision)
    with pytest.raises(MachineError, match="cannot read the state files was installed"):
        refuse_downgrade(server(machine, tmp_path), OTHER_FORMAT)


def test_a_downgrade_that_fails_for_another_reason_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: FakeServer, package: str) -> None:
        raise MachineError("no space left")

    monkeypatch.setattr(FakeServer, "install", fail)
    with pytest.raises(MachineError, match="no space left"):
        refuse_downgrade(server(FakeServer(tmp_path), tmp_path), OTHER_FORMAT)


def test_another_version_than_the_installed_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"newer-1 must be installed, but dpkg has .*-1~deb12"):
        server(FakeServer(tmp_path), tmp_path).expect_version(NEWER)

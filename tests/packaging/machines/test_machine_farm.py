"""Tests of what a run makes and removes, without machines: its namespace, its control groups and its machines."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import lbdns_machines.machine_farm as module
from lbdns_machines.host_check import HostError
from lbdns_machines.machine import Machine
from lbdns_machines.machine_farm import INTERRUPTIONS, MachineFarm
from lbdns_machines.machine_plans import QUICK
from lbdns_machines.time_limit import TimeLimitReached


@dataclass
class Host:
    """Records what is made and removed. ``fail`` maps the name of an event to a function that is called then."""

    events: list[str] = field(default_factory=list)
    fail: dict[str, Callable[[], object]] = field(default_factory=dict)

    def record(self, event: str) -> None:
        self.events.append(event)
        self.fail.get(event, lambda: None)()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host()

    class Network:
        def __enter__(self) -> None:
            host.record("make network")

        def remove(self) -> None:
            host.record("remove network")

    class Groups:
        def make(self, machine: str) -> None:
            host.record("make groups")

        def remove(self) -> None:
            host.record("remove groups")

    def remove_leftovers() -> list[str]:
        host.record("remove leftovers")
        return ["lbdns-machines-16"]

    monkeypatch.setattr(module, "MachineNetwork", Network)
    monkeypatch.setattr(module, "ControlGroups", Groups)
    monkeypatch.setattr(module, "remove_leftovers", remove_leftovers)
    return host


def farm(host: Host, folder: Path) -> MachineFarm:
    farm = MachineFarm(QUICK, folder, folder / "out", lambda network, groups, disk: host.record("check"))

    class FakeMachine(Machine):
        def kill(self) -> None:
            host.record("kill")

    farm.machines["ns"] = FakeMachine(QUICK[0], folder, farm._network, farm._groups, folder / "log")
    return farm


MADE = ["remove leftovers", "make groups", "make network", "check"]
REMOVED = ["kill", "remove groups", "remove network"]


def test_everything_is_made_and_removed(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with farm(host, tmp_path):
        assert host.events == MADE
        (tmp_path / "out" / "roots").mkdir()
    assert host.events == MADE + REMOVED
    assert not (tmp_path / "out" / "roots").exists()
    assert "removed what lbdns-machines-16 left" in capsys.readouterr().out


def raising(error: BaseException) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("event", ["make groups", "make network", "check"])
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError("denied"), HostError),
        (subprocess.SubprocessError("failed"), HostError),
        (HostError("cannot boot"), HostError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_start_that_fails_leaves_nothing(
    event: str, error: BaseException, raised: type[BaseException], host: Host, tmp_path: Path
) -> None:
    host.fail[event] = raising(error)
    with pytest.raises(raised), farm(host, tmp_path):
        pass
    assert host.events == MADE[: MADE.index(event) + 1] + REMOVED


def test_signals_do_not_interrupt_the_removal(host: Host, tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in INTERRUPTIONS}

    def check_handlers() -> None:
        assert {signal.getsignal(number) for number in INTERRUPTIONS} == {signal.SIG_IGN}

    host.fail["remove groups"] = check_handlers
    with farm(host, tmp_path):
        pass
    assert host.events[-1] == "remove network"
    assert {number: signal.getsignal(number) for number in INTERRUPTIONS} == before
    assert signal.SIGHUP in INTERRUPTIONS


@pytest.fixture
def endless_removal(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_LIMIT", 0.05)
    host.fail["kill"] = lambda: threading.Event().wait(60)


@pytest.mark.usefixtures("endless_removal")
def test_machines_that_do_not_stop_are_a_failure(host: Host, tmp_path: Path) -> None:
    with pytest.raises(TimeLimitReached, match="stopping the machines takes longer"), farm(host, tmp_path):
        pass


@pytest.mark.usefixtures("endless_removal")
def test_the_first_error_counts(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HostError, match="too slow"), farm(host, tmp_path):
        raise HostError("too slow")
    assert "stopping the machines takes longer than 0 s; the next run removes the rest" in capsys.readouterr().err


def test_files_that_are_removed_too_slowly_are_no_failure(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], *, check: bool, timeout: float) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    with farm(host, tmp_path):
        monkeypatch.setattr(subprocess, "run", run)
    assert host.events == MADE + REMOVED
    assert f"files remain in {tmp_path / 'out' / 'roots'}; the next run removes them" in capsys.readouterr().err


def test_a_host_that_starts_too_slowly_cannot_boot_machines(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_LIMIT", 0.05)
    host.fail["remove leftovers"] = lambda: threading.Event().wait(60)
    with pytest.raises(HostError, match="checking the host takes longer than 0 s"), farm(host, tmp_path):
        pass
    assert host.events == ["remove leftovers", *REMOVED]

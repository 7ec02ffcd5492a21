"""Tests of the command's exit status and last lines, for every way in which a run can end."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lbdns_machines.__main__ as command
from lbdns_machines.host_check import HostError
from lbdns_machines.machine_farm import INTERRUPTIONS
from lbdns_machines.step_report import StepReport
from lbdns_machines.time_limit import TimeLimitReached


def good(report: StepReport) -> None:
    report.run("one", lambda: "found")


def failing(report: StepReport) -> None:
    report.run("one", lambda: str(int("x")))


def aborted(report: StepReport) -> None:
    report.run("one", lambda: str(int("x")), essential=True)


def raising(error: BaseException) -> Callable[[StepReport], None]:
    def end(report: StepReport) -> None:
        raise error

    return end


@pytest.fixture(autouse=True)
def restored_handlers() -> Iterator[None]:
    """Give the signals their default action, even if the tests' own process ignores one, and restore them."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in INTERRUPTIONS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("end", "status", "printed"),
    [
        (good, 0, "1 steps, 0 failed"),
        (failing, 1, "FAILED: one\ninvalid literal"),
        (aborted, 1, "machines: the later steps need this one: one"),
        (raising(HostError("no\n  control groups")), 0, "machines: skipped: no control groups\n"),
        (raising(TimeLimitReached("the rest takes longer than 9 s")), 1, "FAILED: time limit\nthe rest takes longer"),
        (raising(KeyboardInterrupt()), 130, "machines: interrupted"),
    ],
)
def test_every_end(
    end: Callable[[StepReport], None], status: int, printed: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(command, "run_form", lambda form, packages, out, report: end(report))
    assert command.main(["quick", "--out", str(tmp_path)]) == status
    assert printed in capsys.readouterr().out
    if status == 1:
        assert json.loads((tmp_path / "report.json").read_text())["succeeded"] is False


def raising_signal(number: signal.Signals) -> Callable[..., None]:
    return lambda form, packages, out, report: signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_interrupt_a_run(number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run_form", raising_signal(number))
    assert command.main(["quick", "--out", str(tmp_path)]) == 130


def test_nohup_keeps_a_run_from_ending_with_its_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(command, "run_form", raising_signal(signal.SIGHUP))
    assert command.main(["quick", "--out", str(tmp_path)]) == 0

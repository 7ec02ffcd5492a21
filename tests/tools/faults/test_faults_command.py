"""Tests of the command line of the faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from lbdns_tools.faults import faults_command, isolation, reliability_page
from lbdns_tools.faults.fault import FaultOutcome, Verdict
from lbdns_tools.faults.fault_table import FAULTS
from lbdns_tools.faults.faults_command import command, lines, soak_lines
from lbdns_tools.faults.soak import SoakOutcome


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> dict[str, FaultOutcome]:
    """What running a fault returns, by the fault's name; other faults hold."""
    found: dict[str, FaultOutcome] = {}
    monkeypatch.setattr(isolation, "enter", lambda *_: True)
    monkeypatch.setattr(
        faults_command, "run_fault", lambda fault, *_: found.get(fault.name, FaultOutcome(fault.name, "", ""))
    )
    return found


def invoke(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, words, standalone_mode=False)
    return result.return_value, result.output


def test_list_runs_nothing() -> None:
    status, output = invoke("run", "--list")
    assert status == 0
    assert len(output.splitlines()) == len(FAULTS)


def test_the_exit_status_tells_whether_a_fault_failed(outcomes: dict[str, FaultOutcome], tmp_path: Path) -> None:
    words = ("run", "--only", "process.worker-killed", "--json", str(tmp_path / "json"))
    assert invoke(*words)[0] == 0
    outcomes["process.worker-killed"] = FaultOutcome("process.worker-killed", "", "", "FAILED", ["it died"])
    status, output = invoke(*words)
    assert status == 1
    assert "    it died" in output
    assert "0 held, 1 failed, 0 skipped" in output
    assert '"it died"' in (tmp_path / "json").read_text()


@pytest.mark.parametrize(
    ("words", "verdicts", "status", "last"),
    [
        ((), ["FAILED", "held"], 1, "0 held, 1 failed, 0 skipped"),
        (("--retry",), ["held", "FAILED"], 0, "1 held, 0 failed, 0 skipped"),
        (("--retry",), ["FAILED", "held"], 0, "1 held, 0 failed, 0 skipped"),
        (("--retry",), ["FAILED", "FAILED", "held"], 1, "0 held, 1 failed, 0 skipped"),
    ],
)
def test_retry_repeats_a_failed_fault_once(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], verdicts: list[Verdict], status: int, last: str
) -> None:
    coming = iter([FaultOutcome("a.b", "", "", verdict, ["it died"]) for verdict in verdicts])
    monkeypatch.setattr(isolation, "enter", lambda *_: True)
    monkeypatch.setattr(faults_command, "run_fault", lambda *_: next(coming))
    found, output = invoke("run", "--only", "process.worker-killed", *words)
    assert found == status
    assert output.splitlines()[-1] == last
    failures = verdicts[: 2 if words else 1].count("FAILED") if verdicts[0] == "FAILED" else 0
    assert output.count("failed: a.b\n    it died\n") == failures
    assert ("a.b failed at first and held" in output) == (failures == 1 and status == 0)


def test_a_skipped_fault_is_shown_with_its_reason(outcomes: dict[str, FaultOutcome]) -> None:
    outcomes["process.worker-killed"] = FaultOutcome("process.worker-killed", "", "", "skipped", ["no root"])
    status, output = invoke("run", "--only", "process.worker-killed")
    assert status == 0
    assert "skipped: no root" in output


def test_lines_show_every_figure() -> None:
    outcome = FaultOutcome("a.b", "", "", sent=100, lost=3, lost_after_retry=2, wrong=1, memory_mb=(1.0, 3.0, 2.0))
    assert "lost 3/2 of 100, wrong 1, recovered -, memory 1 to 2 MB (peak 3)" in lines(outcome)[0]


def test_soak_lines_form_a_table() -> None:
    outcome = SoakOutcome(300, 500.0, 1000.0, 1, lost=2, lost_by_event={"worker hung": 2}, problems=["a | b"])
    found = soak_lines(outcome)
    assert all(line.startswith("|") and line.endswith("|") for line in found)
    assert "| queries lost, by injected fault | worker hung: 2 |" in found
    assert found[-1] == "| everything required held | **no**: a \\| b |"


def test_the_page_has_the_rows_that_a_soak_writes() -> None:
    body = reliability_page.section(reliability_page.PAGE.read_text(), "soak").strip().splitlines()
    written = soak_lines(SoakOutcome(300, 500.0, 1000.0, 1))
    assert [line.split("|")[1] for line in body] == [line.split("|")[1] for line in written]

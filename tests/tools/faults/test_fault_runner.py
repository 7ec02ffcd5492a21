"""Tests of the judgement: each limit can fail a run, and a real fault is injected, measured and judged."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lbdns_tools.faults import requirements
from lbdns_tools.faults.fault import Fault, FaultOutcome, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FarmPlan
from lbdns_tools.faults.fault_runner import limit_problems, log_problems, recovery, run_fault
from lbdns_tools.faults.fault_table import FAULTS
from lbdns_tools.faults.query_records import QueryFigures

GOOD = FaultOutcome("a.b", "done", "holds", memory_mb=(50.0, 60.0, 55.0), recover_s=1.0)


@pytest.mark.parametrize(("changes", "problem"), [
    ({"lost": 1}, "1 queries lost; the limit is 0"),
    ({"lost_after_retry": 2}, "2 queries lost after one retry; the limit is 0"),
    ({"wrong": 1}, "1 wrong answers; the limit is 0"),
    ({"recover_s": 5.1}, "the recovery took 5.1 s; the limit is 5 s"),
    ({"memory_mb": (50.0, 99.0, 81.0)}, "memory grew by 31 MB; the limit is 30 MB"),
])  # fmt: skip
def test_each_limit_can_fail(changes: dict[str, Any], problem: str) -> None:
    assert limit_problems(GOOD, Limits()) == []
    assert limit_problems(replace(GOOD, **changes), Limits()) == [problem]


def test_no_recovery_is_no_problem_of_the_limits() -> None:
    assert limit_problems(replace(GOOD, recover_s=None), Limits()) == []


TRACEBACK = 'x\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\nOSError: [Errno 24]\n'


def test_a_traceback_and_a_flood_of_lines_fail() -> None:
    assert log_problems("one\n", Limits(log_lines=1)) == []
    assert log_problems(TRACEBACK, Limits()) == ["the log contains a traceback that ends with: OSError: [Errno 24]"]
    assert log_problems(TRACEBACK, Limits(has_clean_log=False)) == []
    assert log_problems("one\ntwo\n", Limits(log_lines=1)) == ["the server logged 2 lines; the limit is 1"]


@pytest.mark.parametrize(("began", "eased", "recovered", "last_bad", "seconds"), [
    (10.0, 0.0, None, 0.0, None),  # nothing had to recover
    (10.0, 0.0, 13.0, 0.0, 3.0),
    (10.0, 0.0, 13.0, 14.5, 4.5),  # a query was lost after the condition held
    (10.0, 20.0, 21.0, 15.0, 1.0),  # losses during the fault are not part of the recovery
    (10.0, 20.0, None, 15.0, None),
    (10.0, 20.0, None, 22.0, 2.0),
])  # fmt: skip
def test_recovery(began: float, eased: float, recovered: float | None, last_bad: float, seconds: float | None) -> None:
    bed = cast(FaultBed, SimpleNamespace(began=began, eased=eased, recovered_at=recovered))
    assert recovery(bed, QueryFigures(1, 0, 0, 0, 0.0, last_bad)) == seconds


@pytest.mark.parametrize(("ci", "verdict"), [("", "skipped"), ("true", "FAILED")])
def test_a_missing_requirement_skips_the_fault_except_where_everything_must_run(
    monkeypatch: pytest.MonkeyPatch, ci: str, verdict: str
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(requirements, "faketime_library", lambda: None)
    outcome = run_fault(next(fault for fault in FAULTS if "faketime" in fault.needs), 1, quick=True)
    assert outcome.verdict == verdict
    assert "libfaketime is not installed" in outcome.problems[0]


def _nothing(bed: FaultBed) -> None:
    bed.begin()
    bed.keep(0.5)


def test_a_fault_that_costs_nothing_holds() -> None:
    outcome = run_fault(Fault("test.nothing", "nothing", "everything", _nothing), 1, quick=True)
    assert (outcome.problems, outcome.verdict) == ([], "held")
    assert (outcome.lost, outcome.wrong) == (0, 0)
    assert outcome.sent > 100
    assert outcome.memory_mb[0] > 10


def _ban_a_healthy_member(bed: FaultBed) -> None:
    begin = bed.begin()
    bed.forbid("frodo", begin)
    bed.expect(False, "this cannot hold")
    bed.keep(1.0)


def test_a_violated_expectation_fails_the_run() -> None:
    outcome = run_fault(Fault("test.wrong", "nothing", "the impossible", _ban_a_healthy_member), 1, quick=True)
    assert outcome.verdict == "FAILED"
    assert "this cannot hold" in outcome.problems
    assert outcome.wrong > 0
    assert f"{outcome.wrong} wrong answers; the limit is 0" in outcome.problems


def test_a_server_that_does_not_start_fails_with_its_last_line() -> None:
    fault = Fault("test.start", "nothing", "-", lambda bed: None, farm=FarmPlan(server="nonsense = 1\n"))
    outcome = run_fault(fault, 1, quick=True)
    assert outcome.verdict == "FAILED"
    assert "nonsense" in outcome.problems[0]

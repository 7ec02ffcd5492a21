"""Tests of the report: outcomes, times, the table and the JSON document."""

from __future__ import annotations

import json
from itertools import count

import pytest

from lbdns_machines.step_report import RunAbortedError, StepReport


def failing() -> str:
    raise ValueError("broken\nin two lines")


def report(shown: list[str]) -> StepReport:
    ticks = count()
    return StepReport((ValueError,), clock=lambda: float(next(ticks)), show=shown.append)


def test_steps_are_recorded_and_shown() -> None:
    shown: list[str] = []
    steps = report(shown)
    steps.run("one", lambda: "found it")
    steps.run("two", failing)
    steps.run("three", lambda: None)
    assert [(result.name, result.seconds, result.found, result.error) for result in steps.results] == [
        ("one", 1.0, "found it", ""), ("two", 1.0, "", "broken\nin two lines"), ("three", 1.0, "", ""),
    ]  # fmt: skip
    assert [line.split() for line in shown] == [
        ["one", "good", "1.0", "s", "found", "it"],
        ["two", "FAILED", "1.0", "s", "broken", "in", "two", "lines"],
        ["three", "good", "1.0", "s"],
    ]  # fmt: skip
    assert steps.table().endswith("3 steps, 1 failed, 3 s\n\nFAILED: two\nbroken\nin two lines")


def test_an_essential_step_ends_the_run() -> None:
    steps = report([])
    with pytest.raises(RunAbortedError, match="two"):
        steps.run("two", failing, essential=True)
    assert [result.name for result in steps.failed] == ["two"]


def test_other_exceptions_are_no_failures_of_a_step() -> None:
    with pytest.raises(ZeroDivisionError):
        report([]).run("bug", lambda: str(1 // 0))


def test_json_has_every_step() -> None:
    steps = report([])
    steps.run("one", lambda: "found it")
    assert json.loads(steps.to_json())["succeeded"] is True
    steps.add_failure("time limit", "too long")
    document = json.loads(steps.to_json())
    assert (document["succeeded"], document["seconds"]) == (False, 1.0)
    assert document["steps"][1] == {"name": "time limit", "seconds": 0.0, "found": "", "error": "too long"}


def test_long_names_are_cut() -> None:
    shown: list[str] = []
    report(shown).run("x" * 100, lambda: None)
    assert shown[0].startswith("x" * 57 + "...  good")

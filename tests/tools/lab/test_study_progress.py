"""Tests of the display of a study's progress."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.study_plan import StudyPlan, StudyStep
from lbdns_tools.lab.study_progress import in_a_line, watching
from tests.tools.lab.presets.fake_lab import made

STEPS = tuple(StudyStep(f"[cgi] {n}", "unequal", 5.0, lambda lab: ()) for n in (1, 2))
STUDY = StudyPlan({"unequal": LabFarm(())}, STEPS, lambda outcomes: [])


def shown(terminal: bool) -> str:
    file = io.StringIO()
    with watching(STUDY, Console(file=file, force_terminal=terminal, width=200)) as watcher:
        watcher.building("unequal")
        watcher.begins(STEPS[0])
        watcher.measured(made())
        watcher.ends(STEPS[0], None)
        watcher.begins(STEPS[1])
        watcher.ends(STEPS[1], LbdnsError("it rained"))
    return file.getvalue()


def test_without_a_terminal_everything_is_a_line() -> None:
    assert shown(False).splitlines() == [
        "building farm unequal",
        "1/2 [cgi] 1",
        "  unequal, best, html, connection, 20 clients: 100 requests/s, mean 50 ms, p95 100 ms",
        "2/2 [cgi] 2",
        "  failed: [cgi] 2: it rained",
    ]


def test_on_a_terminal_there_is_a_bar() -> None:
    text = shown(True)
    assert "100 requests/s" in text
    assert "left:" in text


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (made(throughput=None), "unequal, best, html, connection, 20 clients: no result"),
        (made(clients=None, rate=40.0, resolve="", error_percent=2.5),
         "unequal, best, html, 40/s: 100 requests/s, mean 50 ms, p95 100 ms, 2.5 % failed"),
    ],
)  # fmt: skip
def test_an_outcome_in_a_line(outcome: object, expected: str) -> None:
    assert in_a_line(outcome) == expected  # type: ignore[arg-type]

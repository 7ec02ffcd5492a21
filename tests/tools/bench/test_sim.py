"""The benchmark of the simulator, at a small size: it measures what it says."""

from __future__ import annotations

import json

import pytest

from lbdns_tools.bench.sim import CASES, bare_loop, main, measure


def test_the_bare_loop_lets_everybody_go() -> None:
    assert bare_loop(1000, 100.0) == 1000


def test_figures_are_of_the_requests_asked_for() -> None:
    figure = measure("T3", "round_robin", 2000)
    assert figure.requests == pytest.approx(2000, rel=0.1)
    assert figure.seconds > figure.floor > 0
    assert figure.met == (figure.seconds <= 60)


def test_every_case_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--requests", "500", "--json"]) == 0
    assert [(found["farm"], found["policy"]) for found in json.loads(capsys.readouterr().out)] == list(CASES)
    assert main(["--requests", "500"]) == 0
    assert "bare loop" in capsys.readouterr().out

"""Tests of the simulator benchmark with a small scenario."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from lbdns_tools.bench.simulator_speed import CASES, bare_loop, measure, measure_case


def test_every_arrival_in_the_bare_loop_departs() -> None:
    assert bare_loop(1000, 100.0) == 1000


def test_the_cost_is_that_of_the_given_number_of_requests() -> None:
    cost = measure_case("T3", "round_robin", 2000)
    assert cost["requests"] == pytest.approx(2000, rel=0.1)
    assert cost["seconds"] > cost["floor"] > 0


def test_every_case_is_measured(tmp_path: Path) -> None:
    results = measure(argparse.Namespace(requests=500), tmp_path)
    assert [(case["farm"], case["policy"]) for case in results["cases"].values()] == list(CASES)
    assert results["met"] == all(case["seconds"] <= 60 for case in results["cases"].values())

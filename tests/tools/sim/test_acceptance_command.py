"""Tests of the verdicts on ``best`` with synthetic results, and of the quick form of the complete acceptance table."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any

import pytest
from click.testing import CliRunner

from lbdns_tools.sim.acceptance_command import command, jobs_of, judge, verdict
from lbdns_tools.sim.acceptance_demands import RR, AcceptanceCase, AcceptanceDemand, demands, none_of, ratio
from lbdns_tools.sim.simulation_results import SimulationResult
from lbdns_tools.sim.simulation_scenario import FARMS, Scenario

CASE = AcceptanceCase("T3", Scenario(FARMS["T3"]))


def result(policy: str, **figures: float) -> SimulationResult:
    made: dict[str, Any] = {field.name: 0 for field in fields(SimulationResult)}
    return SimulationResult(**{**made, "shares": {}, "moments": (), "policy": policy, **figures})


def runs_of(best: list[float], others: list[float]) -> dict[tuple[Scenario, str], list[SimulationResult]]:
    return {
        (CASE.scenario, "best"): [result("best", p95_ms=value) for value in best],
        (CASE.scenario, RR): [result(RR, p95_ms=value) for value in others],
    }


def judged(demand: AcceptanceDemand, best: list[float], others: list[float]) -> tuple[float, float, bool]:
    found = verdict(demand, runs_of(best, others), len(best))
    return found.value, found.error, found.holds


def test_a_ratio_is_one_of_averages() -> None:
    demand = ratio("row", CASE, "p95_ms", CASE.by(RR), 1.05)
    assert judged(demand, [100, 300], [200, 200])[0] == pytest.approx(1.0)
    assert judged(demand, [100, 300], [200, 200])[2]
    assert not judged(demand, [300, 300], [200, 200])[2]


def test_the_error_is_that_of_an_average() -> None:
    demand = ratio("row", CASE, "p95_ms", CASE.by(RR), 1.0)
    value, error, holds = judged(demand, [90, 110, 95, 109], [100, 100, 100, 100])
    assert value == pytest.approx(1.01)
    assert error == pytest.approx(0.0503, rel=0.02)  # the standard deviation, 0.1006, by the root of four
    assert not holds, "an error is no excuse ..."
    noisy = ratio("row", CASE, "p95_ms", CASE.by(RR), 1.0, within_noise=True)
    assert judged(noisy, [90, 110, 95, 109], [100, 100, 100, 100])[2], "... but where both may do the same"
    assert not judged(noisy, [120, 121, 120, 121], [100, 100, 100, 100])[2]


@pytest.mark.parametrize(
    ("value", "at_least", "holds"), [(1.2, True, True), (1.2, False, False), (0.9, True, False), (0.9, False, True)]
)
def test_bounds_have_a_side(value: float, at_least: bool, holds: bool) -> None:
    demand = ratio("row", CASE, "p95_ms", CASE.by(RR), 1.0, at_least)
    assert judged(demand, [100 * value], [100])[2] is holds


def test_nothing_against_nothing_is_no_more() -> None:
    assert judged(ratio("row", CASE, "p95_ms", CASE.by(RR), 1.2), [0], [0])[2]
    assert not judged(ratio("row", CASE, "p95_ms", CASE.by(RR), 1.2), [1], [0])[2]


@pytest.mark.parametrize(("found", "error"), [([1, 1, 1], 0.0), ([0, 0, 5], math.inf)])
def test_a_ratio_to_nothing_has_an_error(found: list[float], error: float) -> None:
    value, found_error, holds = judged(ratio("row", CASE, "p95_ms", CASE.by(RR), 1.2), found, [0, 0, 0])
    assert value == math.inf
    assert found_error == error
    assert not holds


def test_none_means_none() -> None:
    demand = none_of("row", CASE, "p95_ms", "what")
    assert judged(demand, [0, 0], [0, 0])[2]
    assert not judged(demand, [0, 1], [0, 0])[2]


def test_each_run_is_done_once() -> None:
    jobs = jobs_of(demands(), 6)
    assert len(jobs) == len(set(jobs))
    assert {job.policy for job in jobs} == {"best", RR, "weighted", "oracle"}


def test_the_quick_form_has_every_row() -> None:
    assert {demand.row for demand in demands(quick=True)} == {demand.row for demand in demands()}


QUICK = demands(quick=True)


def test_best_shows_what_it_has_to() -> None:
    """Two seeds decide most criteria. The others get four seeds, because two vary by more than some bounds allow."""
    unmet = [v.demand for v in judge(QUICK, 2, 1) if not v.holds]
    verdicts = judge(unmet, 4, 1)
    assert {v.demand.what: (v.value, v.error) for v in verdicts if not v.holds} == {}


def test_a_policy_that_herds_does_not() -> None:
    herding = [
        ratio(d.row, d.cases[0].by("best_score"), "p95_ms", d.cases[1], d.bound)
        for d in QUICK
        if d.what == "U10 mix 0.85: p95 / round_robin"
    ]
    assert herding
    assert not any(v.holds for v in judge(herding, 1, 1))


def test_the_command_says_demand_figure_and_verdict() -> None:
    run = CliRunner().invoke(command, ["--quick", "--seeds", "1", "--processes", "1", "--only", "T3 mix 0.7, s3 dies"])
    assert run.exit_code == 2
    run = CliRunner().invoke(
        command, ["--quick", "--seeds", "1", "--processes", "1", "--only", "unequal servers: throughput"]
    )
    assert run.exit_code == 0, run.output
    assert ">= 1.25" in run.output
    assert "holds" in run.output
    run = CliRunner().invoke(
        command, ["--quick", "--seeds", "1", "--processes", "1", "--only", "unequal servers: throughput", "--json"]
    )
    (found,) = json.loads(run.output)["verdicts"]
    assert found["holds"]
    assert found["demand"] == ">= 1.25"
    assert found["value"] > 1.25

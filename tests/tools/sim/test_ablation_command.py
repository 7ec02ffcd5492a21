"""Tests of the ablation study: best answers without each rule, and the worth of a rule is computed correctly."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lbdns_tools.sim.ablation_command import AblationJob, as_markdown, command, effect_in, worth
from lbdns_tools.sim.ablation_rules import RULES, AblationRule
from lbdns_tools.sim.acceptance_demands import RR, AcceptanceCase, ratio
from lbdns_tools.sim.simulation_jobs import SimulationJob
from lbdns_tools.sim.simulation_results import SimulationResult
from lbdns_tools.sim.simulation_scenario import FARMS, Scenario
from tests.tools.sim.test_acceptance_command import result

CASE = AcceptanceCase("T3", Scenario(FARMS["T3"]))
OTHER = AcceptanceCase("U10", Scenario(FARMS["U10"]))
RULE = AblationRule("a-rule", "does something", "", ())


@pytest.mark.parametrize("name", RULES)
def test_best_still_answers_without_a_rule(name: str) -> None:
    scenario = Scenario(FARMS["T3"], "mix", 0.7, warm_up=2.0, duration=4.0)
    assert AblationJob(name, SimulationJob(scenario, "best", 1)).run().requests > 0


def test_a_rule_that_is_off_changes_the_result() -> None:
    scenario = Scenario(FARMS["T3"], "mix", 0.7, warm_up=2.0, duration=10.0)
    run_of = SimulationJob(scenario, "best", 1)
    with_all, again, without = (AblationJob(rule, run_of).run() for rule in ("", "", "level-filling"))
    assert with_all.mean_ms == again.mean_ms
    assert without.mean_ms != with_all.mean_ms


def runs_of(**milliseconds: list[float]) -> dict[tuple[Scenario, str], list[SimulationResult]]:
    cases = {"t3": (CASE.scenario, "best"), "u10": (OTHER.scenario, "best"), "rr": (CASE.scenario, RR)}
    return {
        cases[name]: [result(cases[name][1], mean_ms=value) for value in values]
        for name, values in milliseconds.items()
    }


def test_an_effect_is_a_geometric_mean_of_ratios() -> None:
    runs, off = runs_of(t3=[100, 100], u10=[50, 50]), runs_of(t3=[400, 400], u10=[50, 50])
    effect = effect_in([CASE, OTHER], runs, off)
    assert effect.ratio == pytest.approx(2.0)
    assert effect.error == pytest.approx(0.0)
    assert not effect.is_chance


def test_an_effect_within_its_error_is_chance() -> None:
    effect = effect_in([CASE], runs_of(t3=[100, 100, 100]), runs_of(t3=[80, 130, 96]))
    assert effect.ratio == pytest.approx(1.02)
    assert effect.is_chance


def test_worth_lists_the_criteria_that_need_the_rule() -> None:
    criteria = [ratio("row", CASE, "mean_ms", CASE.by(RR), 1.0), ratio("row", OTHER, "mean_ms", OTHER, 1.0)]
    runs = runs_of(t3=[90, 90], u10=[50, 50], rr=[100, 100])
    found = worth(RULE, criteria, runs, runs_of(t3=[180, 180], u10=[40, 40]))
    assert found.lost == (criteria[0].what,)
    assert found.gained == ()
    assert (found.most[0], found.least[0]) == ("T3", "U10")
    assert found.most[1].ratio == pytest.approx(2.0)
    assert found.least[1].ratio == pytest.approx(0.8)
    table = as_markdown([found]).splitlines()
    assert table[1].count("---") == table[0].count("|") - 1
    assert "| `a-rule` | does something |" in table[2]


def test_the_command_measures_one_rule() -> None:
    arguments = ["--quick", "--seeds", "2", "--processes", "1", "--rule", "carried-credits", "--only", "identical"]
    found = CliRunner().invoke(command, [*arguments, "--json"])
    assert found.exit_code == 0, found.output
    (rule,) = json.loads(found.output)["rules"]
    assert rule["rule"] == "carried-credits"
    assert rule["ratio"] > 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--only", "no such case"], "no criterion contains 'no such case'"),
        (["--json", "--markdown"], "--json and --markdown cannot be combined"),
        (["--rule", "no-such-rule"], "'no-such-rule' is not one of"),
    ],
)
def test_invalid_options_are_explained(arguments: list[str], error: str) -> None:
    found = CliRunner().invoke(command, arguments)
    assert found.exit_code == 2
    assert error in found.output

"""Tests of the rules of best: a study switches off each rule, restores it, and changes what the rule is about."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import pytest

from lbdns.choosing.moving_averages import WindowRate
from lbdns.policies.plan import PoolView
from lbdns.policies.steps import finish
from lbdns_tools.sim.ablation_rules import RULES, AblationRule, Replacement, switched_off
from lbdns_tools.sim.acceptance_demands import demands


def attribute(replacement: Replacement) -> Any:
    module, _, class_name = replacement.owner.partition(":")
    target: Any = import_module(module)
    return vars(getattr(target, class_name) if class_name else target)[replacement.name]


def of_best(name: str) -> Any:
    """Return the function that the policy ``best`` uses now."""
    return vars(import_module("lbdns.policies.best"))[name]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_is_off_only_inside_the_context(rule: AblationRule) -> None:
    before = [attribute(replacement) for replacement in rule.replacements]
    with switched_off(rule.name):
        for replacement, value in zip(rule.replacements, before, strict=True):
            assert attribute(replacement) is replacement.value
            assert attribute(replacement) is not value
    assert [attribute(replacement) for replacement in rule.replacements] == before


def test_a_rule_is_restored_after_an_error() -> None:
    replacement = RULES["overflow"].replacements[0]
    before = attribute(replacement)
    with pytest.raises(RuntimeError), switched_off("overflow"):
        raise RuntimeError
    assert attribute(replacement) == before


def test_a_renamed_attribute_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NO_SUCH_LIMIT'"):
        Replacement("lbdns.policies.best", "NO_SUCH_LIMIT", 0).apply()


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_each_rule_was_made_for_criteria_that_exist(rule: AblationRule) -> None:
    assert any(rule.made_for in demand.row for demand in demands())


def test_no_rule_is_off_without_a_name() -> None:
    before = [attribute(replacement) for rule in RULES.values() for replacement in rule.replacements]
    with switched_off(""):
        assert [attribute(replacement) for rule in RULES.values() for replacement in rule.replacements] == before


def test_rules_can_be_off_inside_each_other() -> None:
    """Two rules replace the operating point; each context restores what it has found."""
    original = of_best("operating_point_steps")
    with switched_off("operating-point"):
        proportional = of_best("operating_point_steps")
        with switched_off("in-progress-limit"):
            assert of_best("operating_point_steps") is not proportional
        assert of_best("operating_point_steps") is proportional
    assert of_best("operating_point_steps") is original


def test_without_the_operating_point_rates_are_in_proportion_to_capacity() -> None:
    unequal = [100.0, 300.0], [1.0, 4.0], 40.0
    with switched_off("operating-point"):
        assert finish(of_best("operating_point_steps")(*unequal)).rates == (10.0, 30.0)
    assert finish(of_best("operating_point_steps")(*unequal)).rates != (10.0, 30.0)


def test_without_the_limit_the_operating_point_ignores_requests_in_progress() -> None:
    limited = [100.0, 300.0], [1.0, 4.0], 390.0, 2.0
    with switched_off("in-progress-limit"):
        assert finish(of_best("operating_point_steps")(*limited)) == finish(
            of_best("operating_point_steps")(*limited[:3])
        )
    assert sum(finish(of_best("operating_point_steps")(*limited)).loads) == pytest.approx(2.0, rel=0.01)


def test_without_level_filling_loads_do_not_matter() -> None:
    full_and_idle = [9.0, 0.0], [1.0, 3.0], [100.0, 100.0], 8.0
    with switched_off("level-filling"):
        assert finish(of_best("fill_to_level_steps")(*full_and_idle)) == [2.0, 6.0]
    assert finish(of_best("fill_to_level_steps")(*full_and_idle))[0] == 0.0


def test_without_the_lower_rate_requests_count_as_answers() -> None:
    view = PoolView((), 1.0, requests_per_s=500.0, answers_per_s=20.0, answers_allowed=0)
    unknown = PoolView((), 1.0, requests_per_s=math.inf, answers_per_s=20.0, answers_allowed=0)
    with switched_off("lower-rate"):
        assert of_best("expected_rates")(view) == (500.0, 500.0)
        assert of_best("expected_rates")(unknown) == (20.0, 20.0)
    assert of_best("expected_rates")(view) != (500.0, 500.0)


def test_without_arriving_crowds_the_last_second_does_not_count() -> None:
    rates = WindowRate(10.0)
    for moment in range(100):
        rates.add(moment / 10, 1 if moment < 90 else 50)
    with switched_off("arriving-crowd"):
        assert rates.recent_rate(9.9, 1.0) == rates.rate(9.9)
    assert rates.recent_rate(9.9, 1.0) > 2 * rates.rate(9.9)

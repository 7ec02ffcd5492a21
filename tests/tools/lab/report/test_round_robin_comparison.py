"""Checks that the verdict on ``best`` and ``round_robin`` follows from their figures."""

from __future__ import annotations

from dataclasses import replace

from lbdns_tools.lab.report.round_robin_comparison import FEW, beside_round_robin, saturated
from tests.tools.lab.presets.made_up_courses import course


def test_met() -> None:
    said = beside_round_robin([course([(100, 0.1, 0)], "round_robin"), course([(100, 0.104, 0)], "best")])
    assert said[1] == "Met: 'best' was at most 5 % worse than 'round_robin' in every figure."
    assert "mean response 104 and 100 ms" in said[0]


def test_not_met_and_where() -> None:
    said = beside_round_robin([course([(100, 0.1, 0)], "round_robin"), course([(100, 0.2, 20)], "best")])
    assert said[1].startswith("Not met: ")
    for what in ("successful requests", "mean response", "95 % response", "lost"):
        assert what in said[1]


def test_a_few_that_are_lost_are_chance() -> None:
    turns = course([(1000, 0.1, 0)], "round_robin")
    assert "Met" in beside_round_robin([turns, course([(1000, 0.1, FEW)], "best")])[1]
    assert "Not met" in beside_round_robin([turns, course([(1000, 0.1, FEW + 1)], "best")])[1]


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert beside_round_robin([course([(10, 0.1, 0)], "best")]) == []
    assert beside_round_robin([]) == []


def test_where_the_load_generator_was_the_limit() -> None:
    fine = course([(10, 0.1, 0)], "best", rate=10.0)
    figures = replace(fine.row.figures, saturated="requests were started late")
    doubtful = replace(fine, row=replace(fine.row, figures=figures))
    assert saturated([fine]) == []
    assert saturated([fine, doubtful]) == [
        "best at 10/s: the load generator was the bottleneck, so the farm may perform better than measured "
        "(requests were started late)."
    ]

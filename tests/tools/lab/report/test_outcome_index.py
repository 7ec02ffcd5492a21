"""Tests of the index of outcomes by point: means, shares and ratios of several repetitions."""

from __future__ import annotations

import pytest

from lbdns_tools.lab.report.outcome_index import OutcomeIndex, PointKey, mean_cpu, mean_of, mean_of_known, quotient
from tests.tools.lab.presets.fake_lab import made

KEY = PointKey("unequal", "best", "html", "connection", 20)


def test_figures_are_means_over_repetitions_that_have_one() -> None:
    found = OutcomeIndex(
        [
            made(throughput=100.0, cpu={"dns": 1.0}, shares={"gandalf": 0.5, "frodo": 0.5}),
            made(throughput=None, cpu={"dns": 3.0}),
            made(throughput=200.0, shares={"gandalf": 0.7, "frodo": 0.3}),
            made("round_robin", throughput=50.0),
            made("best", rate=5.0, clients=None, throughput=7.0),
        ]
    )
    rotation = KEY._replace(selection="round_robin")
    assert found.keys == [KEY, rotation]
    assert found.figure(KEY, "requests_per_s") == 150.0
    assert mean_cpu(found.at(KEY), ["dns"]) == 2.0
    assert mean_of(found.at(KEY), "mean_ms") == pytest.approx(50.0)
    assert found.share(KEY, "gandalf") == pytest.approx(0.6)
    assert found.ratio(KEY, rotation, "requests_per_s") == 3.0


def test_ratios_are_of_the_same_repetition() -> None:
    measured = ((1, 100.0, 90.0), (2, None, 80.0), (3, 0.0, 70.0), (4, 50.0, 75.0))
    found = OutcomeIndex([
        made(selection, throughput=throughput, repetition=number)
        for number, rotation, best in reversed(measured)
        for selection, throughput in (("best", best), ("round_robin", rotation))
    ] + [made("best", repetition=5)])  # fmt: skip
    rotation = KEY._replace(selection="round_robin")
    assert found.ratios(KEY, rotation, "requests_per_s") == (1.5, 0.9), (
        "2 and 3 have no result, 5 nobody to compare with"
    )
    assert found.ratios(KEY, KEY._replace(clients=30), "requests_per_s") == ()


def test_what_was_not_measured_is_no_result() -> None:
    found = OutcomeIndex([made(throughput=0.0)])
    missing = KEY._replace(clients=30)
    assert found.at(missing) == []
    assert (found.figure(missing, "p95_s"), found.share(missing, "frodo"), mean_cpu(found.at(KEY), ["dns"])) == (
        None,
    ) * 3
    assert found.keys == [KEY]  # looking for a point doesn't make it
    assert found.ratio(missing, KEY, "requests_per_s") is None
    assert found.ratio(KEY, KEY, "requests_per_s") is None  # nothing to divide by
    assert (mean_of_known([None, None]), quotient(0.0, 2.0), quotient(None, 2.0), quotient(1.0, 0.0)) == (
        None,
        0.0,
        None,
        None,
    )

"""Checks that the figures from 1999 agree with the published ones."""

from __future__ import annotations

import pytest

from lbdns_tools.lab.report import webstone_1999


def test_nine_tables_of_nine_points() -> None:
    tables = {(line.table, line.selection, line.workload) for line in webstone_1999.lines()}
    assert len(tables) == 9
    assert {(selection, workload) for _, selection, workload in tables} == {
        (selection, workload) for selection in webstone_1999.SELECTIONS for workload in webstone_1999.WORKLOADS
    }
    assert len(webstone_1999.lines()) == 81
    assert {line.clients for line in webstone_1999.lines()} == set(range(20, 101, 10))


def test_a_line() -> None:
    line = webstone_1999.line_of("best", "mixed", 60)
    assert line == webstone_1999.WebStone1999Row("Table 12", "best", "mixed", 60, 142.15, 59.67, 0.4195, 0.0, 58.44)


def test_what_was_not_measured_is_not_there() -> None:
    assert webstone_1999.line_of("best", "mixed", 55) is None
    assert webstone_1999.table_of("best_score", "mixed") is None
    assert webstone_1999.table_of("single", "cgi") == "Table 3"
    assert webstone_1999.series("mean_latency_s", "video") == {}


def test_a_series_is_what_a_picture_needs() -> None:
    series = webstone_1999.series("connections_per_s", "html")
    assert list(series) == ["single", "round_robin", "best"]
    assert series["round_robin"][0] == (20.0, 151.27)
    assert series["best"][-1] == (100.0, 219.12)
    with pytest.raises(ValueError, match=r"'p95_s' was not measured in 1999; the 1999 figures are connections_per_s"):
        webstone_1999.series("p95_s", "html")


def test_best_against_round_robin_is_what_the_study_says() -> None:
    """Check the ratios at the 27 published points: mean 1.078, minimum 1.036, maximum 1.122."""
    ratios = []
    for workload in webstone_1999.WORKLOADS:
        series = webstone_1999.series("connections_per_s", workload)
        ratios += [best / rr for (_, best), (_, rr) in zip(series["best"], series["round_robin"], strict=True)]
    assert len(ratios) == 27
    assert sum(ratios) / 27 == pytest.approx(1.078, abs=0.001)
    assert min(ratios) == pytest.approx(1.036, abs=0.001)
    assert max(ratios) == pytest.approx(1.122, abs=0.001)

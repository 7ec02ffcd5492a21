"""Tests of the ``capacity`` study: its loads, the rate at which it stops, and its report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import UNEQUAL
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.presets.capacity_study import HIGH, LOW, PRESET, QUICK_SELECTIONS, TUNED
from lbdns_tools.lab.report.capacity_report import CRITERIA, STUDY_RATES, study_table
from lbdns_tools.lab.report.outcome_index import part
from lbdns_tools.lab.study_plan import StudySettings
from lbdns_tools.load.load_plan import OpenLoop
from tests.tools.lab.presets.fake_lab import FakeLab, made
from tests.tools.lab.presets.study_steps import Server, do, draw, words_of

CARRIES = {"alone": 800.0, "round_robin": 300.0, "best": 900.0, "haproxy": 850.0}
QUICK = StudySettings(quick=True)


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab(LabFarm(UNEQUAL))


def test_rates_are_parts_of_what_is_carried(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = do(PRESET.plan(QUICK, None), lab, Server(CARRIES), monkeypatch)
    assert {outcome.case.selection for outcome in part(outcomes, "carried")} == set(QUICK_SELECTIONS)
    rates = {name: [o.row.point.rate_per_s for o in part(outcomes, "rate") if o.case.selection == name]
             for name in QUICK_SELECTIONS}  # fmt: skip
    assert rates["best"] == [300.0, 600.0, 900.0]
    assert rates["haproxy"] == [300.0, 600.0, 900.0]
    assert "haproxy leastconn begins" in lab.heard
    assert lab.heard.count("haproxy ends") == 2


def test_rates_end_after_two_that_failed(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = do(PRESET.plan(StudySettings(), None), lab, Server(CARRIES), monkeypatch)
    rates = [o.row.point.rate_per_s for o in part(outcomes, "rate") if o.case.selection == "round_robin"]
    assert rates == [150.0, 300.0, 450.0, 600.0]


def test_the_frontier_finds_what_is_carried(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(CARRIES)
    outcomes = do(PRESET.plan(QUICK, None), lab, server, monkeypatch)
    edges = part(outcomes, "edge")
    assert [(edge.case.selection, edge.case.more["connections"]) for edge in edges] == [
        (name, count) for name in ("round_robin", "best") for count in (500, 1500)
    ]
    for edge in edges:
        most = CARRIES[edge.case.selection]
        assert 0.6 * most <= float(edge.case.more["highest_per_s"]) <= 1.02 * most
    for case, planned in server.calls:
        load = planned.run.phases[0].load
        if case.more.get("part") == "trial" and isinstance(load, OpenLoop):
            assert planned.run.warm_up_s == 0
            assert load.requests == case.more["connections"]
            assert LOW * CARRIES[case.selection] <= load.rates[0] <= HIGH * CARRIES[case.selection]


def test_each_setting_of_the_lab_is_taken_back_alone(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    study = PRESET.plan(StudySettings(selections=("alone", "best"), clients=(100, 300)), None)
    outcomes = do(study, lab, Server(CARRIES), monkeypatch)
    found = [edge for edge in part(outcomes, "edge") if "setting" in edge.case.more]
    assert [edge.case.more["setting"] for edge in found] == list(TUNED)
    assert {edge.case.more["connections"] for edge in found} == {300}
    for kind, values in TUNED.values():
        begin = lab.heard.index(f"{kind} {dict(values)} begins")
        end = lab.heard.index(f"{kind} {dict(values)} ends")
        assert not [line for line in lab.heard[begin + 1 : end] if "begins" in line]
    (table,) = study.sections(outcomes)[3].tables
    assert [row[:2] for row in table.rows] == [["as in the lab", 300.0], *([name, 300.0] for name in TUNED)]
    (frontier, _) = study.sections(outcomes)[2].tables
    assert [row[:2] for row in frontier.rows] == [[name, count] for name in ("alone", "best") for count in (100, 300)]


@pytest.mark.parametrize("settings", [QUICK, StudySettings(selections=("best",))])
def test_settings_are_measured_only_alone_and_in_the_long_form(settings: StudySettings) -> None:
    assert not [step.name for step in PRESET.plan(settings, None).steps if step.name.split(",")[0] in TUNED]


def test_trials_are_kept_when_one_fails(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    server, trials = Server(CARRIES), 0

    def fail_at_the_third() -> None:
        nonlocal trials
        trials += server.calls[-1][0].more.get("part") == "trial"
        if trials == 3:
            raise LbdnsError("a load process ended")

    server.meanwhile = fail_at_the_third
    study = PRESET.plan(QUICK, None)
    kept: list[MeasuredOutcome] = []
    monkeypatch.setattr("lbdns_tools.lab.measuring.case_measurement.measure", server)
    lab.farm = study.farms["farm"]

    def to_the_end() -> None:
        for step in study.steps:
            kept.extend(step.do(cast(Any, lab)))

    with pytest.raises(LbdnsError, match="load process"):
        to_the_end()
    assert len(part(kept, "trial")) == 2


def test_the_report(lab: FakeLab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = PRESET.plan(QUICK, None)
    sections = study.sections(do(study, lab, Server(CARRIES), monkeypatch))
    words = words_of(sections)
    assert "With 'best', the farm served 3.00 times as many requests/s as with 'round_robin'" in words
    assert str(CRITERIA) in words
    assert (
        "The highest rate that was sustained with every selection is 300 requests/s. At this rate, host selection "
        "used the following share of one core: " in words
    )
    assert len(draw(sections, tmp_path)) == 4


def test_a_report_of_nothing(tmp_path: Path) -> None:
    sections = PRESET.plan(QUICK, None).sections([])
    assert [section.heading for section in sections] == [
        "Carried rates", "Against the rate", "Connections and rate", "Settings", "What was full",
    ]  # fmt: skip
    assert sections[-1].words == ["No measurement failed."]
    assert draw(sections, tmp_path) == []


def test_the_report_says_what_was_full_when_a_rate_failed() -> None:
    study = PRESET.plan(QUICK, None)
    held = made("best", rate=100.0, throughput=100.0, part="rate")
    failed = made("best", rate=100.0, throughput=50.0, part="trial", connections=500, cpu={"bilbo": 10.9, "frodo": 1.0})
    figures = replace(failed.row.figures, local={**failed.row.figures.local, "port": 7})
    failed = replace(
        failed, row=replace(failed.row, figures=figures), kernel={"frodo": {"listen_overflows": 3.0}, "dns": {}}
    )
    (table,) = study.sections([held, failed])[-1].tables
    assert table.rows == [
        [
            "best", 500, 100.0, "only 50/s of 100/s",
            "bilbo: the CPU quota was used up; clients: no source port was free 7 times; "
            "frodo: the queue for accept() was full 3 times",
        ]
    ]  # fmt: skip


def test_without_a_proxy_there_is_none() -> None:
    study = PRESET.plan(QUICK, LabFarm(UNEQUAL))
    assert not [step for step in study.steps if "haproxy" in step.name]


def test_the_study_s_figures() -> None:
    rows = study_table().rows
    assert [row[0] for row in rows] == list(STUDY_RATES) == [400, 800, 1200, 1600, 2000, 2400]
    assert [list(column) for column in zip(*rows, strict=True)][1:] == [
        [0.85, 1.73, 4.15, 4.26, 6.82, 5.99], [1, 2, 3, 4, 5, 6], [1.07, 2.52, 3.63, 4.46, 4.74, 5.83],
        [1.7, 2.3, 1.5, 2.2, 1.5, 1.9], [1.4, 1.4, 1.9, 2.2, 2.6, 1.8], [1.07, 1.07, 1.3, 1.7, 1.8, 1.8],
        [3.48, 3.49, 3.58, 3.53, 3.57, 3.57], [3.70, 3.81, 3.93, 4.04, 4.15, 4.38],
        [5.72, 5.71, 5.70, 5.72, 5.71, 5.76],
    ]  # fmt: skip

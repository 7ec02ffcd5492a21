"""Tests of the ``far`` study: distances, resolve rules, loads and farms of its steps, and the report."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.loads.farm_load import FARM, UNEQUAL
from lbdns_tools.lab.machines.link_distances import LinkDistances
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase
from lbdns_tools.lab.presets.far_study import (
    CROWD_SHAPE,
    CROWD_USUAL,
    PRESET,
    REPORTS,
    SELECTIONS,
    STEADY_LOAD,
    ReportCondition,
)
from lbdns_tools.lab.presets.sites_study import SITE_FARM
from lbdns_tools.lab.report.far_report import CROWD, DISTANCES, STEADY
from lbdns_tools.lab.study_plan import StudySettings
from lbdns_tools.load.load_plan import OpenLoop
from lbdns_tools.load.load_study import PlannedRun
from tests.tools.lab.presets.fake_lab import FakeLab, made
from tests.tools.lab.presets.study_steps import Server, do, draw, words_of

CARRIES = dict.fromkeys(SELECTIONS, 100.0)
MOST_MINUTES, MOST_QUICK_MINUTES = 25, 2


def calls_of(
    monkeypatch: pytest.MonkeyPatch, settings: StudySettings
) -> tuple[FakeLab, list[tuple[MeasuredCase, PlannedRun]]]:
    """Run the study on a fake lab, and return the lab and the cases that belong to a part of the study."""
    study, server = PRESET.plan(settings, None), Server(CARRIES)
    lab = FakeLab(study.farms[FARM])
    do(study, lab, server, monkeypatch)
    parts = (DISTANCES, STEADY, CROWD)
    return lab, [(case, planned) for case, planned in server.calls if case.more.get("part") in parts]


def test_every_selection_is_measured_at_every_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, calls = calls_of(monkeypatch, StudySettings())
    assert len(lab.apart) == len(calls)
    assert lab.heard.count("distances end") == len(calls)
    points = [
        (planned.run.resolve.mode, distances, case.selection)
        for (case, planned), distances in zip(calls, lab.apart, strict=True)
        if case.more["part"] == DISTANCES
    ]
    assert len(set(points)) == len(points) == 2 * 3 * 2 * 3
    assert {(distances.round_trip_s, distances.loss) for _, distances, _ in points} == {
        (round_trip_s, loss) for round_trip_s in (0.0002, 0.02, 0.08) for loss in (0.0, 0.01)
    }
    assert {mode for mode, _, _ in points} == {case.resolve for case, _ in calls} == {"connection", "webstone"}


def test_reports_and_not_requests_are_late_or_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, calls = calls_of(monkeypatch, StudySettings())
    for (case, planned), distances in zip(calls, lab.apart, strict=True):
        if case.more["part"] == DISTANCES:
            continue
        assert (distances.round_trip_s, distances.loss) == (0.02, 0.0)
        loads = [phase.load for phase in planned.run.phases]
        highest = max(max(load.rates) for load in loads if isinstance(load, OpenLoop))
        share = STEADY_LOAD if case.more["part"] == STEADY else CROWD_USUAL * CROWD_SHAPE.times
        assert highest == pytest.approx(share * 100)
        assert case.more["report_delay_s"] == pytest.approx(0.01 + distances.report_delay_s)
    rows = {
        (case.more["part"], case.selection, case.more["report_interval_s"], case.more["report_loss_percent"],
         round(float(case.more["report_delay_s"]), 2))
        for case, _ in calls
    }  # fmt: skip
    for part in (STEADY, CROWD):
        assert (part, "round_robin", 1.0, 0.0, 0.01) in rows
        for point in ((1.0, 0.0, 0.01), (1.0, 10.0, 0.01), (1.0, 30.0, 0.01), (1.0, 0.0, 1.01), (0.25, 0.0, 0.01),
                      (5.0, 0.0, 0.01)):  # fmt: skip
            assert {(part, "best", *point), (part, "best_score", *point)} <= rows


def test_one_lab_for_each_interval() -> None:
    study = PRESET.plan(StudySettings(), None)
    order = [name for name, _ in groupby(study.steps, key=lambda step: step.farm)]
    assert order == list(study.farms) == [FARM, "reports every 0.25 s", "reports every 5 s"]
    assert [farm.interval for farm in study.farms.values()] == [1.0, 0.25, 5.0]
    assert all(step.needed == ("learns" in step.name or "sustained" in step.name) for step in study.steps)


@pytest.mark.parametrize(("quick", "minutes"), [(False, MOST_MINUTES), (True, MOST_QUICK_MINUTES)])
def test_the_study_does_not_last_longer_than_promised(quick: bool, minutes: int) -> None:
    assert PRESET.plan(StudySettings(quick=quick), None).seconds < 60 * minutes


def test_a_quick_study_needs_one_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, calls = calls_of(monkeypatch, StudySettings(quick=True))
    assert {case.farm for case, _ in calls} == {FARM}
    assert {case.more["part"] for case, _ in calls} == {DISTANCES, STEADY}
    assert {case.selection for case, _ in calls} == {"round_robin", "best"}
    assert LinkDistances(0.02, report_loss=0.3) in lab.apart


def test_a_farm_with_sites() -> None:
    with pytest.raises(ConfigError, match="remove the sites"):
        PRESET.plan(StudySettings(), SITE_FARM)


def test_an_own_farm_keeps_its_hosts_and_gets_the_intervals() -> None:
    own = LabFarm((WebHost("a", 0.2),), interval=3.0)
    farms = PRESET.plan(StudySettings(), own).farms
    assert {farm.interval for farm in farms.values()} == {1.0, 0.25, 5.0}
    assert {replace(farm, interval=3.0) for farm in farms.values()} == {own}


def columns(condition: ReportCondition) -> Any:
    """Return a condition's columns, typed as Any so that they can be passed as keyword arguments."""
    return condition.columns()


def test_the_report(tmp_path: Path) -> None:
    near, lossy = ReportCondition(), ReportCondition(distances=LinkDistances(0.08, 0.01))
    outcomes = [
        made(selection, "cgi", resolve, 40, FARM, throughput=rate, p95=p95, part=DISTANCES, **columns(condition))
        for condition in (lossy, near)
        for resolve in ("connection", "webstone")
        for selection, rate, p95 in (("round_robin", 50.0, 2.0), ("best", 100.0, 0.5))
    ]
    every = list(REPORTS.values())
    outcomes += [
        made("best", "cgi", "connection", None, FARM, p95=0.2, rate=70.0, part=part, **columns(condition))
        for part in (STEADY, CROWD)
        for condition in every
    ]
    outcomes += [made("round_robin", "cgi", clients=None, p95=0.8, rate=70.0, part=STEADY, **columns(every[0]))]
    study = PRESET.plan(StudySettings(), LabFarm(UNEQUAL))
    sections = study.sections(outcomes)
    assert len(sections) == 4
    first = sections[0].tables[0]
    found = [dict(zip(first.columns, row, strict=True)) for row in first.rows]
    assert [(row["round trip ms"], row["lost %"], row[""]) for row in found] == [
        (0.0, 0.0, "round_robin"), (0.0, 0.0, "best"), (80.0, 1.0, "round_robin"), (80.0, 1.0, "best"),
    ]  # fmt: skip
    assert cast(float, found[3]["successful / round robin's"]) == pytest.approx(2.0)
    assert cast(float, found[3]["p95 / round robin's"]) == pytest.approx(0.25)
    steady = sections[2].tables[0]
    rows = [dict(zip(steady.columns, row, strict=True)) for row in steady.rows if "best" in row]
    assert [cast(float, row["p95 / round robin's"]) for row in rows] == pytest.approx([0.25] * len(every))
    assert [row["report interval s"] for row in rows] == sorted(each.interval for each in every)
    assert "two round trips" in words_of(sections)
    assert draw(sections, tmp_path) == [
        "far-connection-throughput", "far-connection-p95", "far-webstone-throughput", "far-webstone-p95",
        "far-reports-steady", "far-reports-crowd",
    ]  # fmt: skip

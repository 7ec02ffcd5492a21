"""Tests of the ``sites`` study: the load and the name that the clients of each site use, and the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.loads.farm_load import FARM, UNEQUAL
from lbdns_tools.lab.measuring import site_measurement
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase, MeasuredOutcome
from lbdns_tools.lab.presets import sites_study
from lbdns_tools.lab.presets.sites_study import LOADS, PRESET, SELECTIONS, SITE_FARM
from lbdns_tools.lab.report.sites_report import EVEN, OVERLOADED
from lbdns_tools.lab.study_plan import StudySettings
from lbdns_tools.load.load_plan import OpenLoop
from lbdns_tools.load.load_study import PlannedRun
from tests.tools.lab.presets.fake_lab import FakeLab, made
from tests.tools.lab.presets.study_steps import Server, do, draw, words_of

CARRIED = 90.0  # requests/s of the whole farm, and so 30/s of each site


def loads_of(
    monkeypatch: pytest.MonkeyPatch, settings: StudySettings, farm: LabFarm | None = None
) -> dict[tuple[str, str], Mapping[str, PlannedRun]]:
    """Run the study on a fake lab. Return the planned runs by part and selection, and then by client host."""
    calls: dict[tuple[str, str], Mapping[str, PlannedRun]] = {}

    def measure(
        lab: Any, case: MeasuredCase, planned: Mapping[str, PlannedRun], repetition: int
    ) -> list[MeasuredOutcome]:
        calls[str(case.more["part"]), case.selection] = planned
        return []

    monkeypatch.setattr(site_measurement, "measure", measure)
    study = PRESET.plan(settings, farm)
    do(study, FakeLab(study.farms[FARM]), Server({"best": CARRIED}), monkeypatch)
    return calls


def rates_of(planned: Mapping[str, PlannedRun]) -> list[float]:
    loads = [run.run.phases[0].load for run in planned.values()]
    return [load.rates[0] for load in loads if isinstance(load, OpenLoop)]


def test_loads_are_shares_of_what_each_site_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = loads_of(monkeypatch, StudySettings())
    assert list(calls) == [(part, selection) for part in (EVEN, OVERLOADED) for selection in SELECTIONS]
    for selection in SELECTIONS:
        assert rates_of(calls[EVEN, selection]) == pytest.approx([15.0, 15.0, 15.0])
        first, others = LOADS[OVERLOADED]
        assert first > 1
        assert rates_of(calls[OVERLOADED, selection]) == pytest.approx([30 * first, 30 * others, 30 * others])


def test_clients_of_one_site_share_its_load(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = loads_of(monkeypatch, StudySettings(), replace(SITE_FARM, clients=4))
    assert rates_of(calls[EVEN, "best"]) == pytest.approx([7.5, 15.0, 15.0, 7.5])


def test_each_way_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = loads_of(monkeypatch, StudySettings(quick=True))
    assert {part for part, _ in calls} == {OVERLOADED}
    names = {
        selection: [run.run.phases[0].mix.targets[0].host for run in planned.values()]
        for (_, selection), planned in calls.items()
    }
    assert names == {
        "round_robin": ["round.robin.hobbit"] * 3,
        "nearest": ["berlin.site.hobbit", "paris.site.hobbit", "tokyo.site.hobbit"],
        "best": ["best.hobbit"] * 3,
        "best_sites": ["best.sites.hobbit"] * 3,
    }


def test_a_farm_without_sites() -> None:
    with pytest.raises(ConfigError, match="at least two sites"):
        PRESET.plan(StudySettings(), LabFarm(UNEQUAL))


def outcome(selection: str, site: str, mean: float, shares: Mapping[str, float], ok: int = 100) -> MeasuredOutcome:
    of = made(selection, mean=mean, shares=shares, rate=5.0, clients=None, part=EVEN, site=site)
    figures = replace(of.row.figures, requests=ok, ok=ok)
    return replace(of, row=replace(of.row, figures=figures))


def test_the_share_served_at_home(tmp_path: Path) -> None:
    farm = LabFarm((WebHost("a1", 0.1, site="a"), WebHost("a2", 0.1, site="a"), WebHost("b1", 0.1, site="b")), 2)
    outcomes = [
        outcome("best_sites", "all", 0.07, {}, 400),
        outcome("best_sites", "a", 0.08, {"a1": 0.25, "a2": 0.25, "b1": 0.5}, 300),
        outcome("best_sites", "b", 0.04, {"b1": 1.0}, 100),
        outcome("nearest", "all", 0.09, {}, 400),
    ]
    study = PRESET.plan(StudySettings(), farm)
    (section,) = sections = study.sections(outcomes)
    rows = {str(row[0]): list(row[1:]) for row in section.tables[0].rows}
    columns = list(section.tables[0].columns)[1:]
    found = dict(zip(columns, rows["best_sites"], strict=True))
    assert cast(float, found["served at home %"]) == pytest.approx((0.5 * 300 + 1.0 * 100) / 4)
    assert cast(float, found["mean ms"]) == pytest.approx(70)
    assert cast(float, found["mean ms of a's clients"]) == pytest.approx(80)
    assert dict(zip(columns, rows["nearest"], strict=True))["served at home %"] is None
    assert "5 ms to a host at the client's own site, and 60 ms" in words_of(sections)
    assert draw(sections, tmp_path) == ["sites-even-load"]


def test_all_rates_are_known_before_the_study_begins() -> None:
    assert sites_study.carried_by(SITE_FARM, "paris", CARRIED) == pytest.approx(30.0)

"""Tests of the ``trace`` study: its scaled loads, and its report's comparison with the original study."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import UNEQUAL
from lbdns_tools.lab.loads.load_shapes import SCALER_RUNS
from lbdns_tools.lab.presets.day_trace_study import HIGHEST, PRESET, QUICK_DAY_S
from lbdns_tools.lab.report.outcome_index import part
from lbdns_tools.lab.study_plan import StudySettings
from lbdns_tools.load.load_plan import OpenLoop
from tests.tools.lab.presets.fake_lab import FakeLab
from tests.tools.lab.presets.made_up_courses import course
from tests.tools.lab.presets.study_steps import Server, do, draw, words_of

QUICK = StudySettings(quick=True)
HOSTS = {"bilbo": 11.0, "frodo": 7.0, "gandalf": 11.0}


def test_the_highest_rate_is_nine_tenths_of_what_is_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({"best": 200.0, "round_robin": 60.0})
    outcomes = do(PRESET.plan(QUICK, None), FakeLab(LabFarm(UNEQUAL)), server, monkeypatch)
    assert [o.case.selection for o in part(outcomes, "day")] == ["round_robin", "best"]
    assert [o.case.selection for o in part(outcomes, "scaler")] == ["round_robin", "best"]
    by_part = {str(case.more["part"]): planned.run for case, planned in server.calls if "part" in case.more}
    day = by_part["day"]
    load = day.phases[0].load
    assert isinstance(load, OpenLoop)
    assert max(load.rates) == pytest.approx(HIGHEST * 200)
    assert day.seconds == pytest.approx(day.warm_up_s + QUICK_DAY_S)
    scaler = by_part["scaler"]
    assert len(scaler.phases) == len(SCALER_RUNS)
    assert min(phase.begin_s for phase in scaler.phases) == scaler.warm_up_s


def test_beside_the_study(tmp_path: Path) -> None:
    turns = course([(100, 0.2, 10)], "round_robin", cpu=HOSTS, part="day")
    best = course([(100, 0.1, 0)], "best", cpu=HOSTS, part="day")
    sections = PRESET.plan(QUICK, None).sections([turns, best])
    rows = {str(row[0]): row[1:] for row in sections[0].tables[1].rows}
    assert rows["mean response, ms"] == pytest.approx([144.6, 116.0, 101.8, 200.0, 100.0])
    assert rows["mean CPU, %"][3] == pytest.approx(29 / 0.58)  # of what the hosts have
    assert rows["requests lost"][1:] == pytest.approx([32288, 2148, 2.22e6, 0.0])
    assert "Met: 'best' was at most 5 % worse" in words_of(sections)
    assert "order of magnitude" in words_of(sections)
    assert draw(sections, tmp_path) == ["day"]


def test_a_report_of_nothing(tmp_path: Path) -> None:
    assert draw(PRESET.plan(QUICK, None).sections([]), tmp_path) == []

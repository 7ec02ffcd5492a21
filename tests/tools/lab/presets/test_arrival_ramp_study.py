"""Tests of the ``ramp`` study: its rates, the measurement of service times, and the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import UNEQUAL
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.presets.arrival_ramp_study import FIRST, LAST, PRESET, QUICK_LOADS
from lbdns_tools.lab.report.outcome_index import part
from lbdns_tools.lab.study_plan import StudySettings
from lbdns_tools.load.load_plan import OpenLoop
from tests.tools.lab.presets.fake_lab import FakeLab
from tests.tools.lab.presets.made_up_courses import course
from tests.tools.lab.presets.study_steps import Server, do, draw, words_of

QUICK = StudySettings(quick=True)


def test_the_ramp_is_from_a_little_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({"best": 200.0, "round_robin": 60.0, "alone": 14.0})
    outcomes = do(PRESET.plan(QUICK, None), FakeLab(LabFarm(UNEQUAL)), server, monkeypatch)
    ramps = [planned.run.phases[0].load for case, planned in server.calls if case.more.get("part") == "ramp"]
    assert [outcome.case.selection for outcome in part(outcomes, "ramp")] == ["round_robin", "best"]
    for load in ramps:
        assert isinstance(load, OpenLoop)
        assert load.ramp
        assert load.rates == pytest.approx((FIRST * 200, LAST * 200))


def test_loads_of_the_service_time_run_are_shares_of_what_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({"best": 200.0, "round_robin": 60.0, "alone": 14.0})
    outcomes = do(PRESET.plan(QUICK, None), FakeLab(LabFarm(UNEQUAL)), server, monkeypatch)
    rates = [outcome.row.point.rate_per_s for outcome in part(outcomes, "load")]
    assert rates == pytest.approx([load * 2 * 14.0 for load in QUICK_LOADS])  # 14/s by one client, two processors


def ramp(selection: str, until: int) -> MeasuredOutcome:
    """Return the outcome of a ramp in which all requests fail from the time ``until`` (in seconds) on."""
    counts = [(10 * second, 0.01, 10 * second if second >= until else 0) for second in range(30)]
    return course(counts, selection, cpu={"bilbo": 5.0, "frodo": 5.0, "gandalf": 5.0}, part="ramp")


@pytest.mark.parametrize(
    ("best", "said"),
    [
        (24, "'best' sustained 230 requests/s, 'round_robin' 110 requests/s (ratio 2.09)."),
        (9, "'best' sustained 80 requests/s, 'round_robin' 110 requests/s (ratio 0.73). 'round_robin' was better."),
        (30, "best sustained the whole ramp."),
    ],
)
def test_what_is_said_of_a_ramp(best: int, said: str) -> None:
    sections = PRESET.plan(QUICK, None).sections([ramp("round_robin", 12), ramp("best", best)])
    assert said in words_of(sections)


def test_service_time_beside_the_formula(tmp_path: Path) -> None:
    one = course([(14, 0.07, 0)], "alone", part="service")
    rate = 2 / 0.07 / 2
    half = course([(14, 0.0933, 0)], "alone", cpu={"server": 100.0}, rate=rate, part="load", load=0.5)
    much = course([(28, 1.0, 0)], "alone", cpu={"server": 200.0}, rate=2.3 * rate, part="load", load=1.15)
    sections = PRESET.plan(QUICK, None).sections([one, half, much])
    first, second = sections[1].tables[0].rows
    assert first[1] == pytest.approx(50.0)
    assert first[4] == pytest.approx(70 / (1 - 0.25))  # M/M/2
    assert first[5] == pytest.approx(1.0, abs=0.01)
    assert second[4] is None  # the queue would grow
    assert "28.571 requests/s" in words_of(sections)
    assert "The host served at most 28 requests/s, which is 0.98 times the study's rate." in words_of(sections)
    assert draw(sections, tmp_path) == ["service-time"]


def test_without_the_one_client_there_is_no_result() -> None:
    assert "the service time with a single client was not measured" in words_of(PRESET.plan(QUICK, None).sections([]))

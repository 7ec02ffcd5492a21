"""Tests of the ``balancers`` study: what it measures, and which balancers it uses."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools import installed_programs
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import FRONTS, UNEQUAL, reached
from lbdns_tools.lab.measuring import case_measurement
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.presets import balancer_study
from lbdns_tools.lab.presets.balancer_study import CONCURRENCY, FARM, PRESET, RATES, REPETITIONS, SELECTIONS
from lbdns_tools.lab.study_plan import StudyPlan, StudySettings
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from tests.tools.lab.presets.fake_lab import FakeLab, FakeMeasure, made


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> FakeMeasure:
    fake = FakeMeasure()
    monkeypatch.setattr(case_measurement, "measure", fake)
    return fake


@pytest.fixture(autouse=True)
def _no_pound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_programs, "is_there", lambda name: name != "pound")


def do(study: StudyPlan, words: str) -> tuple[FakeLab, list[MeasuredOutcome]]:
    """Run the steps whose names contain ``words``. Return the fake lab and the outcomes."""
    lab = FakeLab(study.farms[FARM])
    return lab, [outcome for step in study.steps if words in step.name for outcome in _take(step.do(lab))]  # type: ignore[arg-type]


def _take(outcomes: Iterable[MeasuredOutcome]) -> list[MeasuredOutcome]:
    return list(outcomes)


def test_who_is_reached_how() -> None:
    lab = FakeLab(LabFarm(UNEQUAL, proxies=("haproxy", "nginx")))
    targets = {}
    for selection in ("direct", "round_robin", "best", "nginx", "haproxy_least"):
        with reached(lab, selection, FRONTS.get(selection)) as target:  # type: ignore[arg-type]
            targets[selection] = target
    assert targets == {
        "direct": "198.18.1.3", "round_robin": "round.robin.hobbit", "best": "best.hobbit",
        "nginx": "198.18.2.2", "haproxy_least": "198.18.2.1",
    }  # fmt: skip
    assert lab.heard == ["nginx roundrobin begins", "nginx ends", "haproxy leastconn begins", "haproxy ends"]


def test_the_concurrency_sweep(measure: FakeMeasure) -> None:
    _, outcomes = do(PRESET.plan(StudySettings(), None), "sweep, ")
    counted = [outcome for outcome in outcomes if outcome.case.more == {"part": "sweep"}]
    assert len(counted) == len(CONCURRENCY) * (len(SELECTIONS) - 1) * REPETITIONS  # Pound isn't there
    assert (CONCURRENCY[0], CONCURRENCY[1], CONCURRENCY[-1]) == (1, 101, 1401)
    loads = {planned.run.phases[0].load for case, planned, _ in measure.calls if case.more}
    assert loads == {ClosedLoop(count, requests=5000) for count in CONCURRENCY}
    assert {planned.run.warm_up_s for case, planned, _ in measure.calls if case.more} == {0.0}
    assert {repetition for *_, repetition in measure.calls} == {1, 2, 3}
    selections = [outcome.case.selection for outcome in counted[: len(SELECTIONS) - 1]]
    assert selections == [selection for selection in SELECTIONS if selection != "pound"]  # one after the other


def test_other_policies_are_compared_on_request(measure: FakeMeasure) -> None:
    do(PRESET.plan(StudySettings(selections=("best", "weighted")), None), "ab, ")
    assert [(case.selection, case.target) for case, *_ in measure.calls] == [
        ("best", "best.hobbit"), ("weighted", "weighted.hobbit"),
    ]  # fmt: skip
    usual = {step.name for step in PRESET.plan(StudySettings(), None).steps}
    assert "ab, best" in usual
    assert "ab, weighted" not in usual


def test_the_table_of_ab(measure: FakeMeasure) -> None:
    do(PRESET.plan(StudySettings(selections=("direct", "haproxy")), None), "ab, ")
    assert [(case.selection, planned.run.phases[0].load) for case, planned, _ in measure.calls] == [
        (selection, ClosedLoop(300, requests=50_000)) for selection in ("direct", "haproxy")
    ]


def test_rates_are_parts_of_what_is_carried(measure: FakeMeasure) -> None:
    measure.throughput = 80.0
    study = PRESET.plan(StudySettings(selections=("best", "haproxy")), None)
    do(study, "the sustained rate")
    measure.calls.clear()
    lab, outcomes = do(study, f"{RATES} rates, haproxy")
    rates = [planned.point.rate_per_s for _, planned, _ in measure.calls]
    assert rates == pytest.approx([8.0 * number for number in range(1, 11)])
    assert all(isinstance(planned.run.phases[0].load, OpenLoop) for _, planned, _ in measure.calls)
    assert {target.path for _, p, _ in measure.calls for target in p.run.phases[0].mix.targets} == {
        "/cgi-bin/sleep?s=0.2"
    }
    assert lab.heard == ["haproxy roundrobin begins", *["settle", "measure haproxy"] * RATES, "haproxy ends"]
    assert len(outcomes) == RATES


def test_a_rate_sweep_ends_where_most_fails(measure: FakeMeasure) -> None:
    study = PRESET.plan(StudySettings(selections=("best",)), None)
    do(study, "the sustained rate")
    measure.error_percent = 60.0
    _, outcomes = do(study, "10 rates, best")
    assert len(outcomes) == 1


def test_rates_without_knowing_what_is_carried(measure: FakeMeasure) -> None:
    with pytest.raises(LbdnsError, match="was not measured"):
        do(PRESET.plan(StudySettings(selections=("best",)), None), "10 rates, best")


def test_webstones_files(measure: FakeMeasure) -> None:
    lab, _ = do(PRESET.plan(StudySettings(selections=("best", "nginx_least")), None), "cgi, ")
    assert lab.heard == [
        "measure best", "nginx leastconn begins", "measure nginx_least", "nginx ends",
    ]  # fmt: skip
    assert [(case.resolve, planned.point.clients) for case, planned, _ in measure.calls] == [
        ("connection", 60), ("", 60),
    ]  # fmt: skip


def test_what_is_not_part_of_a_farm_is_left_out() -> None:
    farm = LabFarm(UNEQUAL, proxies=("haproxy",))
    study = PRESET.plan(StudySettings(quick=True), farm)
    assert not any("nginx" in step.name for step in study.steps)
    section = next(part for part in study.sections([made(part="web")]) if part.tables)
    assert [words.split()[0] for words in section.words if "was omitted" in words] == ["nginx", "pound"]
    with pytest.raises(ConfigError, match="unknown name 'nginx'"):
        PRESET.plan(StudySettings(selections=("nginx",)), farm)


def test_quick_is_a_few_minutes() -> None:
    assert PRESET.plan(StudySettings(quick=True), None).seconds < 7 * 60
    assert balancer_study.PRESET is PRESET

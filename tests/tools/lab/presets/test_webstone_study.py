"""Tests of the ``webstone`` study: what it measures, in what order, and on which targets."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.loads.farm_load import TIMEOUT_S
from lbdns_tools.lab.measuring import case_measurement
from lbdns_tools.lab.presets.webstone_study import CLIENTS, EQUAL, PRESET
from lbdns_tools.lab.study_plan import StudyPlan, StudySettings
from lbdns_tools.load.load_plan import ClosedLoop
from tests.tools.lab.presets.fake_lab import FakeLab, FakeMeasure

QUICK_S = 4 * 60.0 - 45.0  # what CI has, less building a lab, learning and the report
FULL_S = 72 * 60.0


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> FakeMeasure:
    fake = FakeMeasure()
    monkeypatch.setattr(case_measurement, "measure", fake)
    return fake


def taken(study: StudyPlan) -> list[FakeLab]:
    """Run all steps, with one fake lab per farm, and return the labs."""
    labs = {name: FakeLab(farm) for name, farm in study.farms.items()}
    for step in study.steps:
        lab = labs[step.farm]
        lab.heard.append(step.name)
        for outcome in step.do(lab):  # type: ignore[arg-type]
            lab.heard.append(f"got {outcome.case.selection}")
    return list(labs.values())


def test_a_full_study(measure: FakeMeasure) -> None:
    study = PRESET.plan(StudySettings(), None)
    assert {name: len(farm.hosts) for name, farm in study.farms.items()} == {"unequal": 3, "equal": 3}
    assert study.seconds < FULL_S
    _, equal = taken(study)
    got = Counter((c.farm, c.selection, c.resolve) for c, p, _ in measure.calls if p.point.clients and p.run.warm_up_s)
    every = 3 * len(CLIENTS)
    assert got == {
        ("unequal", "round_robin", "connection"): every, ("unequal", "best", "connection"): every,
        ("unequal", "best_score", "connection"): every, ("unequal", "round_robin", "webstone"): every,
        ("unequal", "best", "webstone"): every, ("unequal", "best_score", "webstone"): every,
        ("unequal", "single", ""): every, ("unequal", "alone", ""): 2 * every,
        ("equal", "round_robin", "connection"): every, ("equal", "best", "connection"): every,
        ("equal", "round_robin", "webstone"): every, ("equal", "best", "webstone"): every,
    }  # fmt: skip
    assert len({step.name for step in study.steps}) == len(study.steps)
    assert {host.cpu for host in equal.farm.hosts} == {0.19}
    assert sum(host.cpu for host in EQUAL) == pytest.approx(0.57)


def test_what_is_compared_is_measured_one_after_the_other(measure: FakeMeasure) -> None:
    taken(PRESET.plan(StudySettings(), None))
    measured = [
        (case.selection, case.workload, case.resolve, planned.point.clients) for case, planned, _ in measure.calls
    ]
    for place, (selection, *where) in enumerate(measured):
        if selection == "best" and measured[place - 1][0] == "round_robin":
            assert list(measured[place - 1][1:]) == where
    pairs = sum(one[0] == "round_robin" and other[0] == "best" for one, other in pairwise(measured))
    assert pairs == Counter(selection for selection, *_ in measured)["round_robin"]


def test_every_other_repetition_goes_the_other_way_round(measure: FakeMeasure) -> None:
    taken(PRESET.plan(StudySettings(clients=(20,), repetitions=3, selections=("round_robin", "best")), None))
    calls = [
        (case.selection, repetition)
        for case, _, repetition in measure.calls
        if (case.farm, case.workload, case.resolve) == ("equal", "html", "webstone")
    ]
    assert calls == [
        ("round_robin", 1), ("best", 1), ("best", 2), ("round_robin", 2), ("round_robin", 3), ("best", 3),
    ]  # fmt: skip


def test_hosts_alone_are_measured_beside_what_is_compared_with_their_sum(measure: FakeMeasure) -> None:
    taken(PRESET.plan(StudySettings(), None))
    calls = [(case, planned.point.clients) for case, planned, _ in measure.calls if case.farm == "unequal"]
    for place, (case, clients) in enumerate(calls):
        if case.selection == "alone":
            before = [other for other in calls[place - 6 : place] if other[0].resolve == "webstone"]
            assert (("best", clients), case.workload) in [((c.selection, n), c.workload) for c, n in before]


def test_each_workload_begins_with_learning_that_does_not_count(measure: FakeMeasure) -> None:
    settings = StudySettings(quick=True, clients=(20,), selections=("round_robin", "best"))
    (lab,) = taken(PRESET.plan(settings, None))
    assert lab.heard == [
        line
        for workload in ("html", "cgi", "mixed")
        for line in (
            f"unequal, {workload}: lbdns learns the workload", "fresh", "measure best",
            f"unequal, {workload}, round_robin, connection, 20 clients", "measure round_robin", "got round_robin",
            f"unequal, {workload}, best, connection, 20 clients", "measure best", "got best",
        )
    ]  # fmt: skip


def test_quick_fits_into_ci(measure: FakeMeasure) -> None:
    study = PRESET.plan(StudySettings(quick=True), None)
    assert list(study.farms) == ["unequal"]
    assert study.seconds < QUICK_S
    taken(study)
    got = {(case.selection, case.workload, planned.point.clients) for case, planned, _ in measure.calls}
    assert got >= {
        (selection, workload, clients)
        for selection in ("single", "round_robin", "best")
        for workload in ("html", "cgi", "mixed")
        for clients in (20, 60)
    }
    assert {case.resolve for case, *_ in measure.calls} == {"", "connection"}


def test_the_single_server_is_the_slowest_unless_it_is_named(measure: FakeMeasure) -> None:
    def asked(*selections: str) -> set[tuple[str, str, object]]:
        measure.calls.clear()
        taken(PRESET.plan(StudySettings(selections=selections, clients=(20,)), None))
        return {(case.selection, case.target, case.more["host"]) for case, *_ in measure.calls}

    assert asked("single") == {("single", "198.18.1.2", "frodo")}
    assert asked("single:gandalf") == {("single", "198.18.1.3", "gandalf")}
    assert asked("single:gandalf", "alone") == {
        ("single", "198.18.1.3", "gandalf"), ("alone", "198.18.1.1", "bilbo"), ("alone", "198.18.1.2", "frodo"),
    }  # fmt: skip


def test_settings_are_heard(measure: FakeMeasure) -> None:
    settings = StudySettings(seconds=4.0, warm_up_s=1.0, repetitions=2, seed=5, clients=(7,), selections=("best",))
    taken(PRESET.plan(settings, None))
    counted = [(planned, repetition) for _, planned, repetition in measure.calls if planned.point.clients == 7]
    assert {repetition for _, repetition in counted} == {1, 2}
    assert {(planned.run.warm_up_s, planned.run.seconds, planned.run.seed) for planned, _ in counted} == {(1.0, 5.0, 5)}


def test_a_point_of_webstone(measure: FakeMeasure) -> None:
    taken(PRESET.plan(StudySettings(clients=(30,), selections=("best",), seed=7), None).only("mixed, best, webstone"))
    ((case, planned, _),) = [
        call for call in measure.calls if call[0].resolve == "webstone" and call[0].farm != "equal"
    ]
    (phase,) = planned.run.phases
    assert (case.target, phase.load) == ("best.hobbit", ClosedLoop(30, 12.5))
    assert (planned.run.warm_up_s, planned.run.timeout_s, planned.run.seed) == (5.0, TIMEOUT_S, 7)
    assert (planned.point.clients, planned.point.resolve) == (30, "webstone")
    assert {target.host for target in phase.mix.targets} == {"best.hobbit"}
    assert len(phase.mix.targets) == 10


def test_the_page_and_the_intervals_of_1999(measure: FakeMeasure) -> None:
    settings = StudySettings(
        clients=(20,), selections=("single", "round_robin", "best", "best_score"), workload="page50k", intervals="1999"
    )
    study = PRESET.plan(settings, None)
    assert {farm.score for farm in study.farms.values()} == {"thesis"}
    taken(study)
    counted = [(case, planned) for case, planned, _ in measure.calls if planned.point.clients == 20]
    assert {(case.selection, case.resolve, planned.run.resolve.first) for case, planned in counted} == {
        ("single", "", ""), ("round_robin", "1999", ""), ("best", "1999", "round.robin.hobbit"),
        ("best_score", "1999", "round.robin.hobbit"),
    }  # fmt: skip
    in_turn = [planned for case, planned in counted if case.resolve == "1999"]
    assert {(planned.run.resolve.seconds, planned.run.warm_up_s, planned.run.seconds) for planned in in_turn} == {
        (20.0, 20.0, 60.0)
    }
    paths = {(case.workload, target.path) for case, planned in counted for target in planned.run.phases[0].mix.targets}
    html, cgi = "/file50k.html", "/cgi-bin/file?size=50000"
    assert paths == {("html", html), ("cgi", cgi), ("mixed", html), ("mixed", cgi)}
    assert {case.more["files"] for case, _ in counted} == {"page50k"}


def test_the_present_study_has_no_trace_of_1999(measure: FakeMeasure) -> None:
    taken(PRESET.plan(StudySettings(clients=(20,)), None))
    assert {planned.run.resolve.first for _, planned, _ in measure.calls} == {""}
    assert not any("files" in case.more for case, _, _ in measure.calls)


def test_a_farm_of_ones_own(measure: FakeMeasure) -> None:
    study = PRESET.plan(StudySettings(clients=(20,)), LabFarm((WebHost("a", 0.5), WebHost("b", 0.2))))
    assert list(study.farms) == ["own"]
    taken(study)
    assert {case.more["host"] for case, *_ in measure.calls if case.selection == "single"} == {"b"}


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("bset", r"--selections: unknown name 'bset'. Perhaps you meant 'best'\?"),
        ("single:gandlaf", r"single:gandlaf: the farm has no host 'gandlaf'. Perhaps you meant 'gandalf'\?"),
        ("haproxy", "unknown name 'haproxy'; known: single, alone, round_robin, best, best_score"),
    ],
)
def test_selections_that_there_are_not(selection: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PRESET.plan(StudySettings(selections=(selection,)), None)

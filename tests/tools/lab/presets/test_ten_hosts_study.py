"""Tests of the ``ten-hosts`` study: the load of each step in lab and simulator, and the report."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import UNEQUAL
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase
from lbdns_tools.lab.presets import ten_hosts_study
from lbdns_tools.lab.presets.simulated_twin import SimulatedTwin
from lbdns_tools.lab.presets.ten_hosts_study import CLIENTS, LOADS, PRESET, SELECTIONS
from lbdns_tools.lab.report.ten_hosts_report import BUSY
from lbdns_tools.lab.study_plan import StudySettings
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from lbdns_tools.load.load_study import PlannedRun
from tests.tools.lab.presets.fake_lab import FakeLab, made
from tests.tools.lab.presets.study_steps import Server, do, draw, words_of

CARRIES = dict.fromkeys(SELECTIONS, 300.0)
MOST_MINUTES, MOST_QUICK_MINUTES = 25, 2


class Twin:
    """Records the simulations that a study asks for."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, str, ClosedLoop | OpenLoop, int]] = []

    def columns(
        self, twin: SimulatedTwin, policy: str, load: Any, seconds: float, busy_loops: int, busy: str
    ) -> dict[str, float]:
        self.calls.append((twin.request_cpu_s, policy, load, busy_loops))
        return {"simulated_p95_s": 0.1}


def run_study(
    monkeypatch: pytest.MonkeyPatch, settings: StudySettings
) -> tuple[Twin, list[tuple[MeasuredCase, PlannedRun]], list[str]]:
    """Run the study on a fake lab. Return the simulations, the measured cases, and the hosts with busy loops."""
    study, server, twin, busy = PRESET.plan(settings, None), Server(CARRIES), Twin(), list[str]()

    def columns(simulated: SimulatedTwin, *values: Any) -> dict[str, float]:
        return twin.columns(simulated, *values)

    monkeypatch.setattr(SimulatedTwin, "columns", columns)

    def burners(lab: Any, host: str, seconds: float) -> Any:
        busy.append(host)
        return nullcontext()

    monkeypatch.setattr(ten_hosts_study, "burners", burners)
    do(study, FakeLab(next(iter(study.farms.values()))), server, monkeypatch)
    return twin, [call for call in server.calls if call[0].more.get("part", "carried") != "carried"], busy


def test_every_measurement_is_simulated_with_the_same_load(monkeypatch: pytest.MonkeyPatch) -> None:
    twin, calls, busy = run_study(monkeypatch, StudySettings())
    assert len(twin.calls) == len(calls) == 2 * len(SELECTIONS) * (len(LOADS) + 2)
    for (cost, policy, load, loops), (case, planned) in zip(twin.calls, calls, strict=True):
        # The fake lab's ten hosts use 5 % of a core each, and serve 300 requests/s
        assert cost == pytest.approx(10 * 0.05 / 300)
        assert policy == case.selection
        phase = planned.run.phases[-1]
        if isinstance(load, OpenLoop):
            assert isinstance(phase.load, OpenLoop)
            assert phase.load.rates == load.rates
            part = str(case.more["part"])
            assert load.rates[0] / 300 == pytest.approx(0.5 if part == BUSY else float(part.removeprefix("load ")))
        else:
            assert isinstance(phase.load, ClosedLoop)
            assert load.clients == phase.load.clients == CLIENTS
        assert bool(loops) == (case.more["part"] == BUSY)
    assert busy == ["s1"] * len(SELECTIONS) + ["s9"] * len(SELECTIONS)  # the first of the strongest hosts
    assert {case.farm for case, _ in calls} == {"U10", "H10"}


def test_a_quick_study_has_one_farm_and_one_load(monkeypatch: pytest.MonkeyPatch) -> None:
    _, calls, busy = run_study(monkeypatch, StudySettings(quick=True))
    assert [(case.farm, case.selection, case.more["part"]) for case, _ in calls] == [
        ("H10", "round_robin", "load 0.7"), ("H10", "best", "load 0.7"),
    ]  # fmt: skip
    assert not busy


@pytest.mark.parametrize(("quick", "minutes"), [(False, MOST_MINUTES), (True, MOST_QUICK_MINUTES)])
def test_the_study_does_not_last_longer_than_promised(quick: bool, minutes: int) -> None:
    assert PRESET.plan(StudySettings(quick=quick), None).seconds < 60 * minutes


def test_an_own_farm_is_refused() -> None:
    with pytest.raises(ConfigError, match="omit --farm"):
        PRESET.plan(StudySettings(), LabFarm(UNEQUAL))


def test_the_report(tmp_path: Path) -> None:
    def of(selection: str, p95: float, model_p95: float) -> Any:
        columns: Any = {
            "part": "load 0.7", "simulated_requests_per_s": 50.0, "quota_requests_per_s": 100.0,
            "simulated_p95_s": model_p95, "quota_p95_s": p95, "simulated_mean_s": 0.1, "quota_mean_s": 0.05,
        }  # fmt: skip
        return made(selection, "cgi", clients=None, farm="H10", p95=p95, throughput=100.0, rate=100.0, **columns)

    study = PRESET.plan(StudySettings(), None)
    sections = study.sections([
        made("best", "cgi", farm="H10", part="carried"), of("round_robin", 0.9, 0.3), of("best", 0.12, 0.1)
    ])  # fmt: skip
    (section,) = sections
    table = section.tables[0]
    rows = {str(row[0]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert cast(float, rows["round_robin"]["lab / slow cores (throughput)"]) == pytest.approx(2.0)
    assert cast(float, rows["round_robin"]["lab / slow cores (p95)"]) == pytest.approx(3.0)
    assert cast(float, rows["best"]["lab / quotas (p95)"]) == pytest.approx(1.0)
    words = words_of(sections)
    assert "With slow cores, the 95th percentile differs in the lab (ratio): round_robin (3)." in words
    assert "With quotas, the 95th percentile is alike for all selections." in words
    assert draw(sections, tmp_path) == ["ten-hosts-h10-load-07"]


def test_measurements_that_were_not_simulated_have_no_result() -> None:
    study = PRESET.plan(StudySettings(), None)
    (section,) = study.sections([made("best", "cgi", farm="U10", part="load 0.5")])
    table = section.tables[0]
    assert dict(zip(table.columns, table.rows[0], strict=True))["quotas p95 ms"] is None

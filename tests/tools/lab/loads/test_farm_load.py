"""Tests of how a farm is put under load: targets, durations, selection methods, and the learning load."""

from __future__ import annotations

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import (
    LEARNING_CLIENTS,
    OVERHEAD_S,
    TAIL_S,
    UNEQUAL,
    FarmLoad,
    MeasurementLength,
    chosen,
    dns_name,
    learning,
)
from lbdns_tools.lab.measuring import case_measurement
from lbdns_tools.lab.study_plan import StudySettings
from lbdns_tools.load.load_plan import ClosedLoop
from lbdns_tools.load.request_mix import one_url
from tests.tools.lab.presets.fake_lab import FakeLab, FakeMeasure


def test_everything_is_new_and_nothing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    measure, lab = FakeMeasure(), FakeLab(LabFarm(UNEQUAL))
    monkeypatch.setattr(case_measurement, "measure", measure)
    mix = one_url("http://best.hobbit/1k.html")
    step = learning("unequal", "the sweep", mix, StudySettings(seed=3))
    assert step.farm == "unequal"
    assert list(step.do(lab)) == []  # type: ignore[arg-type]
    assert lab.heard == ["fresh", "measure best"]
    ((case, planned, _),) = measure.calls
    assert (case.target, case.resolve, planned.run.seed) == ("best.hobbit", "connection", 3)
    (phase,) = planned.run.phases
    assert phase.mix == mix
    assert isinstance(phase.load, ClosedLoop)
    assert (phase.load.clients, phase.load.seconds > 10.0) == (LEARNING_CLIENTS, True)


def test_https_without_a_trusted_certificate() -> None:
    planned = FarmLoad(StudySettings(), "/1k.html", "1k", tls=True).planned("best.hobbit", ClosedLoop(1, 1.0))
    (target,) = planned.run.phases[0].mix.targets
    assert (target.tls, target.port, planned.run.insecure) == (True, 443, True)


def test_clients_ask_for_the_name_of_a_policy() -> None:
    assert [dns_name(policy) for policy in ("best", "best_score", "round_robin")] == [
        "best.hobbit", "best.score.hobbit", "round.robin.hobbit",
    ]  # fmt: skip


def test_how_long_a_point_takes() -> None:
    assert MeasurementLength(2.0, 3.0).total("cgi") == 5.0 + OVERHEAD_S + TAIL_S["cgi"]
    assert MeasurementLength(2.0, 3.0).total("1k") == 5.0 + OVERHEAD_S


def test_selections_that_are_said_or_usual() -> None:
    assert chosen((), ("a", "b"), ("a",)) == ("a",)
    assert chosen(("b",), ("a", "b"), ("a",)) == ("b",)
    with pytest.raises(ConfigError, match=r"--selections: unknown name 'bset'. Perhaps you meant 'best'\?"):
        chosen(("bset",), ("best", "single"), ())

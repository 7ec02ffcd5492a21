"""The parts of the study ``balancers`` that vary settings: connection limits, kept connections, and TLS."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools import installed_programs
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import UNEQUAL
from lbdns_tools.lab.measuring import case_measurement
from lbdns_tools.lab.presets import balancer_study, balancer_variants
from lbdns_tools.lab.programs.balancer_setup import PASSED_THROUGH, TERMINATED, BalancerSetup
from lbdns_tools.lab.study_plan import StudyPlan, StudySettings
from lbdns_tools.load.load_plan import ClosedLoop
from tests.tools.lab.presets.fake_lab import FakeLab, FakeMeasure

#: The balancers that are installed
INSTALLED = ("haproxy", "nginx", "pound")


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> FakeMeasure:
    fake = FakeMeasure()
    monkeypatch.setattr(case_measurement, "measure", fake)
    monkeypatch.setattr(installed_programs, "is_there", lambda name: True)
    return fake


def study(**settings: Any) -> StudyPlan:
    return balancer_study.PRESET.plan(StudySettings(**settings), None)


def do(plan: StudyPlan, words: str) -> FakeLab:
    """Run the steps whose names begin with ``words``, and return the fake lab."""
    (farm,) = {step.farm for step in plan.steps if step.name.startswith(words)}
    lab = FakeLab(plan.farms[farm])
    for step in plan.steps:
        if step.name.startswith(words):
            assert list(step.do(cast(Any, lab)))
    return lab


def test_haproxy_limits_the_connections_to_each_host(measure: FakeMeasure) -> None:
    lab = do(study(), "limit, 60 concurrent clients")
    assert [case.selection for case, *_ in measure.calls] == ["best", "haproxy", "haproxy_max6", "haproxy_max10"]
    assert [setup.most_per_host for setup in lab.setups] == [0, 6, 10]
    assert {case.more["part"] for case, *_ in measure.calls} == {"limit"}
    assert {target.path for _, planned, _ in measure.calls for target in planned.run.phases[0].mix.targets} > {
        "/cgi-bin/file?size=5000"
    }
    assert not lab.farm.keep_alive
    assert not lab.farm.tls


def test_nginx_keeps_its_connections_to_hosts_that_permit_it(measure: FakeMeasure) -> None:
    lab = do(study(), "kept, ")
    assert lab.farm.keep_alive
    assert lab.setups[:2] == [BalancerSetup("nginx"), BalancerSetup("nginx", keeps_connections=True)]
    assert not any(planned.run.keep_alive for _, planned, _ in measure.calls), "clients do not, in both cases"


def test_the_sweep_over_https(measure: FakeMeasure) -> None:
    lab = do(study(), "https, 101 concurrent clients")
    assert lab.farm.tls
    targets = {case.selection: case.target for case, *_ in measure.calls}
    assert targets == {
        "direct": "198.18.1.3", "round_robin": "round.robin.hobbit", "best": "best.hobbit", "nginx_tls": "198.18.2.2",
        "haproxy_tls": "198.18.2.1", "haproxy_tcp": "198.18.2.1", "pound_tls": "198.18.2.3",
    }  # fmt: skip
    assert [(setup.program, setup.tls) for setup in lab.setups] == [
        ("nginx", TERMINATED), ("haproxy", TERMINATED), ("haproxy", PASSED_THROUGH), ("pound", TERMINATED),
    ]  # fmt: skip
    for _, planned, _ in measure.calls:
        (phase,) = planned.run.phases
        assert all(target.tls for target in phase.mix.targets)
        assert phase.load == ClosedLoop(101, requests=5000)


def test_lbdns_learns_each_workload_first() -> None:
    names = [step.name for step in study().steps]
    assert (
        names.index("https, the part https: lbdns learns the workload")
        == names.index("https, 1 concurrent clients, direct") - 1
    )
    assert not any("the part kept" in name for name in names), "only balancers are compared there"


def test_options_replace_clients_selections_and_repetitions(measure: FakeMeasure) -> None:
    plan = study(clients=(7,), selections=("haproxy_tcp",), repetitions=2)
    assert [step.name for step in plan.steps if step.farm == balancer_variants.HTTPS] == [
        "https, 7 concurrent clients, haproxy_tcp"
    ] * 2
    do(plan, "https, ")
    assert [repetition for *_, repetition in measure.calls] == [1, 2]
    assert plan.farms.keys() == {balancer_study.FARM, balancer_variants.HTTPS}, "other farms are not built"


def test_special_selections_are_not_part_of_the_other_tests() -> None:
    names = [step.name for step in study().steps if step.farm == balancer_study.FARM]
    others = [name for name in names if not name.startswith("limit, ")]
    assert not any(word in name for name in others for word in ("max6", "keep_alive", "_tls", "_tcp"))


def test_balancers_that_are_missing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_programs, "is_there", lambda name: name != "pound")
    assert not any("pound" in step.name for step in study().steps)
    farm = LabFarm(UNEQUAL, proxies=("nginx",))
    plan = balancer_study.PRESET.plan(StudySettings(), farm)
    assert not any("haproxy" in step.name for step in plan.steps)
    with pytest.raises(ConfigError, match="unknown name 'haproxy_max6'"):
        balancer_study.PRESET.plan(StudySettings(selections=("haproxy_max6",)), farm)

"""DNS and balancers before the same hosts: what is measured, and through whom."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lbdns.errors import ConfigError, LbdnsError
from lbdns_tools.lab import measuring
from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.front import proxies
from lbdns_tools.lab.presets import balancers
from lbdns_tools.lab.presets.balancers import CONCURRENCY, FARM, PRESET, RATES, REPETITIONS, SELECTIONS, reached
from lbdns_tools.lab.presets.points import UNEQUAL
from lbdns_tools.lab.presets.preset import Settings, Study
from lbdns_tools.load.plan import Closed, Open
from tests.tools.lab.presets.made_up import FakeLab, FakeMeasure, made


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> FakeMeasure:
    fake = FakeMeasure()
    monkeypatch.setattr(measuring, "measure", fake)
    return fake


@pytest.fixture(autouse=True)
def _no_pound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "is_there", lambda name: name != "pound")


def do(study: Study, words: str) -> tuple[FakeLab, list[Outcome]]:
    """The steps with these words in their names."""
    lab = FakeLab(study.farms[FARM])
    return lab, [outcome for step in study.steps if words in step.name for outcome in _take(step.do(lab))]  # type: ignore[arg-type]


def _take(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return list(outcomes)


def test_who_is_reached_how() -> None:
    lab = FakeLab(Farm(UNEQUAL, proxies=("haproxy", "nginx")))
    targets = {}
    for selection in ("direct", "round_robin", "best", "nginx", "haproxy_least"):
        with reached(lab, selection) as target:  # type: ignore[arg-type]
            targets[selection] = target
    assert targets == {
        "direct": "198.18.1.3", "round_robin": "round.robin.hobbit", "best": "best.hobbit",
        "nginx": "198.18.2.2", "haproxy_least": "198.18.2.1",
    }  # fmt: skip
    assert lab.heard == ["nginx roundrobin begins", "nginx ends", "haproxy leastconn begins", "haproxy ends"]


def test_the_concurrency_sweep(measure: FakeMeasure) -> None:
    _, outcomes = do(PRESET.plan(Settings(), None), "sweep, ")
    counted = [outcome for outcome in outcomes if outcome.case.more == {"part": "sweep"}]
    assert len(counted) == len(CONCURRENCY) * (len(SELECTIONS) - 1) * REPETITIONS  # Pound isn't there
    assert (CONCURRENCY[0], CONCURRENCY[1], CONCURRENCY[-1]) == (1, 101, 1401)
    loads = {planned.run.phases[0].load for case, planned, _ in measure.calls if case.more}
    assert loads == {Closed(count, requests=5000) for count in CONCURRENCY}
    assert {planned.run.warm_up_s for case, planned, _ in measure.calls if case.more} == {0.0}
    assert {repetition for *_, repetition in measure.calls} == {1, 2, 3}
    selections = [outcome.case.selection for outcome in counted[: len(SELECTIONS) - 1]]
    assert selections == [selection for selection in SELECTIONS if selection != "pound"]  # one after the other


def test_the_table_of_ab(measure: FakeMeasure) -> None:
    do(PRESET.plan(Settings(selections=("direct", "haproxy")), None), "ab, ")
    assert [(case.selection, planned.run.phases[0].load) for case, planned, _ in measure.calls] == [
        (selection, Closed(300, requests=50_000)) for selection in ("direct", "haproxy")
    ]


def test_rates_are_parts_of_what_is_carried(measure: FakeMeasure) -> None:
    measure.throughput = 80.0
    study = PRESET.plan(Settings(selections=("best", "haproxy")), None)
    do(study, "what the farm carries")
    measure.calls.clear()
    lab, outcomes = do(study, f"{RATES} rates, haproxy")
    rates = [planned.point.rate_per_s for _, planned, _ in measure.calls]
    assert rates == pytest.approx([8.0 * number for number in range(1, 11)])
    assert all(isinstance(planned.run.phases[0].load, Open) for _, planned, _ in measure.calls)
    assert {target.path for _, p, _ in measure.calls for target in p.run.phases[0].mix.targets} == {
        "/cgi-bin/sleep?s=0.2"
    }
    assert lab.heard == ["haproxy roundrobin begins", *["settle", "measure haproxy"] * RATES, "haproxy ends"]
    assert len(outcomes) == RATES


def test_a_rate_sweep_ends_where_most_fails(measure: FakeMeasure) -> None:
    study = PRESET.plan(Settings(selections=("best",)), None)
    do(study, "what the farm carries")
    measure.error_percent = 60.0
    _, outcomes = do(study, "10 rates, best")
    assert len(outcomes) == 1


def test_rates_without_knowing_what_is_carried(measure: FakeMeasure) -> None:
    with pytest.raises(LbdnsError, match="was not measured"):
        do(PRESET.plan(Settings(selections=("best",)), None), "10 rates, best")


def test_webstones_files(measure: FakeMeasure) -> None:
    lab, _ = do(PRESET.plan(Settings(selections=("best", "nginx_least")), None), "cgi, ")
    assert lab.heard == [
        "measure best", "nginx leastconn begins", "measure nginx_least", "nginx ends",
    ]  # fmt: skip
    assert [(case.resolve, planned.point.clients) for case, planned, _ in measure.calls] == [
        ("connection", 60), ("", 60),
    ]  # fmt: skip


def test_what_is_not_part_of_a_farm_is_left_out() -> None:
    farm = Farm(UNEQUAL, proxies=("haproxy",))
    study = PRESET.plan(Settings(quick=True), farm)
    assert not any("nginx" in step.name for step in study.steps)
    (section,) = [part for part in study.sections([made(part="web")]) if part.tables]
    assert [words.split()[0] for words in section.words if "left out" in words] == ["nginx", "pound"]
    with pytest.raises(ConfigError, match="'nginx' is not known"):
        PRESET.plan(Settings(selections=("nginx",)), farm)


def test_quick_is_a_few_minutes() -> None:
    assert PRESET.plan(Settings(quick=True), None).seconds < 7 * 60
    assert balancers.PRESET is PRESET

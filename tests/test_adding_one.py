"""Tests of adding a policy, a score or a metric: one table entry is enough, and missing documentation is reported."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.responder import Responder
from lbdns.cli import lbdns
from lbdns.command_line.run_command import run
from lbdns.config import CollectorConfig
from lbdns.model.checked_configuration import build_score
from lbdns.model.farm_reader import load_farm
from lbdns.model.overrides import NO_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.planning.planner import Planner
from lbdns.planning.shadow import shadows_of
from lbdns.policies import POLICIES
from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections
from lbdns.scores import SCORES
from lbdns.scores.score import Score, Term
from lbdns_agent.host_sampler import HostSampler
from lbdns_agent.metrics import METRIC_SENSORS
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.sensor import Sensor
from lbdns_collector.status.status_document import ProgramStatus, StatusInputs, build_status
from lbdns_shared.metric_catalogue import CATALOGUE, MetricDescription
from lbdns_shared.report import Report, encode
from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.scenario_files import read_score
from lbdns_tools.sim.simulation_scenario import FARMS, Scenario
from tests import test_docs
from tests.agent.fixtures import host_with_kernel
from tests.answering.asking import ask
from tests.collector import test_docs as test_collector_docs
from tests.collector.collector_fixtures import ADDRESSES, WALL, write_config
from tests.collector.report_tables import NOW, accept, make


def backwards(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """A policy that repeatedly selects all candidates in reverse order."""
    return Plan(tuple(reversed(view.candidates)))


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(POLICIES, "backwards", PolicySpec("backwards", backwards, why="from the last to the first"))
    return "backwards"


@pytest.fixture
def score(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(SCORES, "cool", Score({"cpu_idle": Term(50.0, 100.0, "high")}))
    return "cool"


@pytest.fixture
def metric(monkeypatch: pytest.MonkeyPatch) -> str:
    sensor = Sensor("/dev/fan", lambda host: 1200.0, lambda before, now, seconds: {"fan_speed": now})
    monkeypatch.setitem(METRIC_SENSORS, "fan_speed", sensor)
    monkeypatch.setitem(CATALOGUE, "fan_speed", MetricDescription("rpm", "speed of the fan", "low", "fan_speed"))
    return "fan_speed"


def checked(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the output of ``lbdns check`` for a valid configuration."""
    status = run(lbdns, "lbdns", ["check", "-c", str(path)])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return printed.out


def status_of(path: Path, snapshot: Snapshot, score: Score) -> dict[str, Any]:
    """Return the pool in the status document."""
    server = ProgramStatus("0", 0.0, 0, 1)
    inputs = StatusInputs(load_farm(path), snapshot, NOW, NO_OVERRIDES, {"web": (0, 0, 0)}, server, score.parts)
    (pool,) = build_status(inputs)["pools"]
    return dict(pool)


async def test_a_policy_answers_and_explains(policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_config(tmp_path)
    path.write_text(path.read_text().replace("[collector]", f'names = {{ best = "{policy}" }}\n[collector]', 1))
    assert policy in checked(path, capsys)
    farm = load_farm(path)
    loop = asyncio.get_running_loop()
    table = AnswerTable(farm)
    planner = Planner(farm, table.cursors, loop)
    try:
        readings = {f"{name}.hobbit": Reading(loop.time(), 60.0, 50) for name in ADDRESSES}
        planner.deliver(Snapshot(1, readings))
        responder = Responder(table)
        selected = [ask(responder, "best.hobbit").answer[0][0].to_text() for _ in range(4)]
        assert selected == ["gandalf.hobbit.", "frodo.hobbit.", "bilbo.hobbit.", "gandalf.hobbit."]
        explained = planner.explain(farm.pools[0], "best", lambda metrics: {})
        assert explained is not None
        assert (explained["next"], explained["why"]) == ("frodo", "from the last to the first")
    finally:
        planner.stop()
    assert status_of(path, Snapshot(1, {}), SCORES["thesis"])["policies"] == {"best": policy}
    assert shadows_of(farm.pools[0].config, CollectorConfig(shadow_score="x")) == (), "scores do not change its plans"
    result = simulate(Scenario(FARMS["T3"], "mix", 0.3, warm_up=5.0, duration=10.0), policy, 1)
    assert result.policy == policy
    with pytest.raises(AssertionError, match=policy):
        test_docs.test_every_key_and_policy_is_in_configuration()


def test_a_score_ranks_members(score: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_config(tmp_path, collector=f'listen = ["127.0.0.1:0"]\nscore = "{score}"\nshadow_score = "thesis"')
    checked(path, capsys)
    built = build_score(load_farm(path).config)
    table = make(score=built)
    report = Report("gandalf", 1, 1, WALL, 1.0, {"cpu_idle": 80.0, "run_queue": 30.0})
    assert accept(table, encode(report), ADDRESSES["gandalf"]) == "accepted"
    (reading,) = table.snapshot().readings.values()
    assert reading.score == 40
    gandalf = status_of(path, table.snapshot(), built)["members"][2]
    assert (gandalf["score"], gandalf["score_parts"]) == (40, {"cpu_idle": 40.0})
    assert read_score(score) == (score, None), "the simulator knows it"
    path.write_text(path.read_text() + f"[score.{score}]\ncpu_idle = {{ weight = 1, limit = 100 }}\n")
    assert run(lbdns, "lbdns", ["check", "-c", str(path)]) == 2
    assert f"[score.{score}]: is the name of a built-in score" in capsys.readouterr().err
    with pytest.raises(AssertionError, match=score):
        test_docs.test_every_score_is_described()


def test_a_metric_is_sampled_reported_and_scored(
    metric: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = HostSampler(host_with_kernel("6.1"), SensorTasks()).sample(0.0, 1.0)
    assert sample.metrics[metric] == 1200.0
    more = f"[score.quiet]\n{metric} = {{ weight = 100, limit = 4000 }}\n"
    path = write_config(tmp_path, collector='listen = ["127.0.0.1:0"]\nscore = "quiet"', more=more)
    checked(path, capsys)
    built = build_score(load_farm(path).config)
    table = make(score=built)
    report = Report("frodo", 1, 1, WALL, 1.0, sample.metrics)
    assert accept(table, encode(report), ADDRESSES["frodo"]) == "accepted"
    frodo = status_of(path, table.snapshot(), built)["members"][1]
    assert (frodo["score"], frodo["metrics"][metric]) == (70, 1200.0), "low is better, as the catalogue says"
    with pytest.raises(AssertionError):
        test_collector_docs.test_every_metric_is_listed_with_its_unit()


def test_the_docs_are_complete_without_them() -> None:
    test_docs.test_every_key_and_policy_is_in_configuration()
    test_docs.test_every_score_is_described()
    test_collector_docs.test_every_metric_is_listed_with_its_unit()

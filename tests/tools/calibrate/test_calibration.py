"""Tests of a complete calibration, on a fake farm and on a simulated farm."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from lbdns.config import load_config
from lbdns_shared.errors import LbdnsError
from lbdns_tools.calibrate.calibration import calibrate, trials_of
from lbdns_tools.calibrate.calibration_output import as_json, as_text, as_toml
from lbdns_tools.calibrate.calibration_trial import BASE, CalibrationTrial, TrialOutcome, alone
from lbdns_tools.calibrate.cli import command
from lbdns_tools.calibrate.simulated_trials import RangeRecorder, SimulatedTrials
from lbdns_tools.sim.simulation_scenario import Scenario, ServerSpec, SimulatedClients


class MadeUpFarm:
    """A farm with predefined throughputs: 100 in round robin's trial, and the given ones in other trials."""

    def __init__(self, **throughput: float) -> None:
        self.throughput = throughput
        self.tried: list[CalibrationTrial] = []

    def metrics(self) -> Sequence[str]:
        return list(self.throughput)

    def run(
        self, trials: Sequence[CalibrationTrial], rounds: int, on_done: Callable[[], None]
    ) -> list[list[TrialOutcome]]:
        self.tried += trials
        for _ in range(rounds * len(trials)):
            on_done()
        ranges = dict.fromkeys(self.throughput, 12.5)
        return [[TrialOutcome(self.throughput.get(trial.name, 100.0), 20.0, ranges)] * rounds for trial in trials]


def test_each_metric_alone_then_the_new_score_against_the_others() -> None:
    farm = MadeUpFarm(run_queue=121.0, cpu_idle=110.0, idle_workers=90.0)
    done: list[None] = []
    found = calibrate(farm, farm.metrics(), "gain", "throughput", 2, lambda: done.append(None))
    assert len(done) == 2 * len(farm.tried) == 2 * trials_of(farm.metrics())
    assert farm.tried[:4] == [BASE, alone("run_queue"), alone("cpu_idle"), alone("idle_workers")]
    assert [(trial.policy, trial.terms) for trial in farm.tried[4:]] == [
        ("best_score", found.terms), ("best", found.terms), ("best_score", None), ("best", None),
    ]  # fmt: skip
    assert {metric: term.weight for metric, term in found.terms.items()} == {"run_queue": 66.67, "cpu_idle": 33.33}
    assert found.compared[0].name == "round_robin"
    assert found.compared[0].gain == 0.0


def test_a_farm_where_no_metric_helps_is_an_error() -> None:
    farm = MadeUpFarm(run_queue=99.0, cpu_idle=80.0)
    with pytest.raises(LbdnsError, match=r"no single metric outperforms .*run_queue.*-1\.0 %.*--method 1999"):
        calibrate(farm, farm.metrics(), "gain", "throughput", 2, lambda: None)
    assert set(calibrate(farm, farm.metrics(), "1999", "throughput", 2, lambda: None).terms) == {
        "run_queue",
        "cpu_idle",
    }


def test_a_configuration_accepts_the_printed_score(tmp_path: Path) -> None:
    farm = MadeUpFarm(run_queue=121.0, requests_per_s=110.0, idle_workers=90.0)
    found = calibrate(farm, farm.metrics(), "gain", "throughput", 2, lambda: None)
    text = as_toml(found, "my-farm", "a farm that is made up")
    (tmp_path / "hobbit.zone").write_text("@ 60 SOA ns h 1 3600 600 86400 60\n@ 60 NS ns\nns 60 A 127.0.0.1\n")
    config = tmp_path / "lbdns.toml"
    config.write_text('[[zone]]\nname = "hobbit"\nfile = "hobbit.zone"\n[collector]\nscore = "my-farm"\n' + text)
    assert dict(load_config(config).scores["my-farm"]) == dict(found.terms)
    assert "# Calibrated on a farm that is made up." in text
    assert "# run_queue alone: 121.0 responses/s, 20.0 ms, +21.0 %" in text
    assert "# idle_workers alone: 90.0 responses/s, 20.0 ms, -10.0 %: omitted" in text
    table = as_text(found)
    assert "run_queue alone" in table
    assert "'best' with the score 'thesis'" in table


def test_json_has_the_gains_as_ratios() -> None:
    farm = MadeUpFarm(run_queue=121.0)
    found = as_json(calibrate(farm, farm.metrics(), "gain", "throughput", 1, lambda: None), "mine")
    assert json.loads(json.dumps(found)) == found
    assert found["metrics"][0]["gain"] == pytest.approx(0.21)
    assert found["terms"] == {"run_queue": {"weight": 100.0, "limit": 13.0, "better": "low", "cap": False}}


#: Two servers of which one is four times as fast: round robin keeps the fast one waiting
UNEVEN = Scenario(
    (ServerSpec("slow", 0.5), ServerSpec("fast", 1.0, 2.0)), "html", clients=SimulatedClients("closed", 4, 4.0),
    warm_up=5.0, duration=40.0,
)  # fmt: skip


def test_simulated_trials_have_the_same_requests_and_repeat() -> None:
    farm = SimulatedTrials(UNEVEN, 1)
    assert "busy_workers" in farm.metrics()
    assert "cpu_count" not in farm.metrics()
    once = farm.run([BASE, alone("busy_workers")], 2, lambda: None)
    again = SimulatedTrials(UNEVEN, 1).run([alone("busy_workers"), BASE], 2, lambda: None)
    assert once == again[::-1], "the order makes no difference"
    assert once[0][0] != once[0][1], "rounds differ"
    assert 0 < once[0][0].ranges["busy_workers"] <= 5


def test_the_trial_decides_in_the_simulator() -> None:
    base, idle, busy = SimulatedTrials(UNEVEN, 1).run(
        [BASE, alone("cpu_idle"), alone("requests_per_s")], 1, lambda: None
    )
    assert len({outcome[0].throughput_per_s for outcome in (base, idle, busy)}) == 3


def test_the_recorder_leaves_out_the_warm_up() -> None:
    recorder = RangeRecorder(None, since=10.0)
    chance = Random(1)
    for second in range(20):
        recorder.observe("a", {"run_queue": 100.0 if second < 10 else chance.random(), "cpu_count": 1.0}, second)
    assert set(recorder.ranges()) == {"run_queue"}
    assert recorder.ranges()["run_queue"] < 1.0
    assert RangeRecorder(None, 0.0).ranges() == {}


def test_the_program_prints_a_toml_table_and_figures() -> None:
    arguments = ["--simulate", "--servers", "slow=0.5x1,fast=1x2", "--workload", "html", "--clients", "closed:4:4",
                 "--duration", "20", "--rounds", "2", "--method", "1999", "--name", "mine", "--processes", "1",
                 "--metric", "cpu_idle", "--metric", "busy_workers"]  # fmt: skip
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    table = tomllib.loads(result.stdout)["score"]["mine"]
    assert math.isclose(sum(term["weight"] for term in table.values()), 100.0)
    assert set(table) == {"cpu_idle", "busy_workers"}
    assert "'best_score' with the score 'thesis'" in result.stderr
    as_data = json.loads(CliRunner().invoke(command, [*arguments, "--json"]).stdout)
    assert {metric: term["weight"] for metric, term in as_data["terms"].items()} == {
        metric: term["weight"] for metric, term in table.items()
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--simulate", "--servers", "fast"], "--servers"),
        (["--simulate", "--workload", "cgy"], "--workload"),
        (["--simulate", "--clients", "closed"], "--clients"),
        (["--simulate", "--name", "thesis"], "'thesis' is reserved"),
        (["--simulate", "--name", "a b"], "letters"),
        ([], "add --load-command"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_metric_that_no_member_reports_is_refused() -> None:
    result = CliRunner().invoke(command, ["--simulate", "--metric", "cpu_count"])
    assert "whether low or high values are better; choose from run_queue" in str(result.exception)

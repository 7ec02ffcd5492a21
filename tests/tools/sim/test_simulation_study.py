"""Tests of how options become simulations: presets, farms, and options that override them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.policies import POLICIES
from lbdns_shared.errors import ConfigError
from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.simulated_dns import ORACLE, split_rule
from lbdns_tools.sim.simulation_presets import PRESETS
from lbdns_tools.sim.simulation_scenario import (
    FARMS,
    OtherWork,
    Outage,
    Scenario,
    ServerSpec,
    SimulatedClients,
    Slowdown,
    Surge,
)
from lbdns_tools.sim.simulation_study import RequestedStudy, check_scenario, load_of, make_study
from tests.tools.sim.made_up_recordings import record

IDLE = {"cpu_count": 1.0, "run_queue": 0.0, "busy_workers": 1.0, "requests": 21.0, "cpu": 0.2}
DAY = record({"a": IDLE, "b": IDLE}, 30, (10, 10))


@pytest.mark.parametrize("name", PRESETS)
def test_presets_can_be_run(name: str) -> None:
    preset = PRESETS[name]
    assert preset.sentence.endswith(".")
    assert preset.seeds > 0
    assert {split_rule(policy)[0] for policy in preset.policies} <= {*POLICIES, ORACLE}
    for scenario in preset.scenarios:
        check_scenario(scenario)
        ends = [
            *(s.end for s in scenario.surges),
            *(w.end for w in scenario.other_work),
            *(o.end for o in scenario.outages),
        ]
        assert all(end < scenario.end for end in ends)
    short = replace(preset.scenarios[0], warm_up=0.0, duration=2.0)
    assert simulate(short, preset.policies[0], 1).requests > 0


def test_the_servers_of_1999_carry_what_they_carried() -> None:
    scenario = PRESETS["testbed-1999"].scenarios[-1]
    assert (scenario.workload, scenario.clients.count) == ("mix", 100)
    short = replace(scenario, duration=40.0, workload="html", servers=PRESETS["testbed-1999"].scenarios[0].servers)
    assert simulate(short, "best", 1).throughput_per_s == pytest.approx(219, rel=0.03)


def test_the_farm_alone() -> None:
    study = make_study(RequestedStudy(servers="1.1x1,0.7x1,2x2"))
    assert study.scenarios == (Scenario(FARMS["T3"]),)
    assert study.policies == ("best", "round_robin", "oracle")


def test_lists_are_crossed() -> None:
    wanted = RequestedStudy(
        servers="T3",
        workloads=("html", "cgi"),
        loads=(0.5, 0.7),
        clients=(SimulatedClients(), SimulatedClients("caches", 9)),
    )
    study = make_study(wanted)
    assert len(study.scenarios) == 8
    assert {(s.workload, s.load, s.clients.kind) for s in study.scenarios} == {
        (w, load, kind) for w in ("html", "cgi") for load in (0.5, 0.7) for kind in ("open", "caches")
    }


def test_an_override_picks_from_a_preset_what_it_has() -> None:
    whole = PRESETS["testbed-1999"].scenarios
    picked = make_study(RequestedStudy(preset="testbed-1999", workloads=("cgi",))).scenarios
    assert picked == tuple(s for s in whole if s.workload == "cgi")
    assert len(make_study(RequestedStudy(preset="T3", loads=(0.5,))).scenarios) == 4


def test_an_override_puts_into_a_preset_what_it_has_not() -> None:
    picked = make_study(RequestedStudy(preset="T3", workloads=("html",), loads=(0.33,))).scenarios
    assert [(s.workload, s.load) for s in picked] == [("html", 0.33)]
    study = make_study(RequestedStudy(preset="dying-server", policies=("weighted",), seeds=9, fields={"interval": 0.5}))
    assert (study.policies, study.seeds, study.scenarios[0].interval) == (("weighted",), 9, 0.5)
    assert study.scenarios[0].outages == PRESETS["dying-server"].scenarios[0].outages


def test_a_farm_of_ones_own_in_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "farm.toml"
    path.write_text('[[server]]\nname = "mine"\n')
    study = make_study(RequestedStudy(preset="flash-crowd", servers=str(path)))
    assert [server.name for server in study.scenarios[0].servers] == ["mine"]
    assert study.scenarios[0].surges
    assert len(make_study(RequestedStudy(preset="caching-resolvers", servers="T3")).scenarios) == 1


def test_a_fitted_farm_brings_its_rate_unless_a_load_is_said() -> None:
    study = make_study(RequestedStudy(recording=DAY))
    assert study.scenarios[0].rate == pytest.approx(20)
    assert [server.name for server in study.scenarios[0].servers] == ["a", "b"]
    assert any("assumed to follow --workload mix" in note for note in study.notes)
    loaded = make_study(RequestedStudy(recording=DAY, loads=(0.5,))).scenarios[0]
    assert (loaded.rate, loaded.load) == (None, 0.5)


@pytest.mark.parametrize("workload", ["html", "cgi"])
def test_the_load_of_a_fitted_farm_is_that_of_the_real_one(workload: str) -> None:
    """Check the load if each server receives 20 requests/s and can serve 105 per CPU second, whatever the workload."""
    scenario = make_study(RequestedStudy(recording=DAY, workloads=(workload,))).scenarios[0]
    assert load_of(scenario) == pytest.approx(20 * 2 / (2 * 105), rel=0.03)


def test_a_replay_takes_the_recorded_times() -> None:
    (scenario,) = make_study(RequestedStudy(recording=DAY, replays=True)).scenarios
    assert scenario.arrivals is not None
    assert len(scenario.arrivals) == 600
    assert load_of(scenario) is None


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (RequestedStudy(), "a farm is required"),
        (RequestedStudy(preset="herdin"), "Perhaps you meant 'herding'?"),
        (RequestedStudy(servers="U11"), "--servers: 'U11' is neither"),
        (RequestedStudy(servers="T3", fields={"outages": (Outage("s4", 1.0),)}), "no server named 's4'"),
        (
            RequestedStudy(preset="full-site", fields={"outages": (Outage("berln", 1.0),)}),
            "Perhaps you meant 'berlin'?",
        ),
        (
            RequestedStudy(preset="full-site", fields={"surges": (Surge(1.0, 2.0, 2.0, "pari"),)}),
            "no site named 'pari'",
        ),
        (RequestedStudy(servers="T3", policies=("best:nearest",)), "best:nearest: the servers have no sites"),
        (RequestedStudy(servers="T3", policies=("best:alone",)), "best:alone: the servers have no backup"),
        (RequestedStudy(servers="T3", policies=("best:anywhere",)), "best:anywhere: the servers have no sites and no"),
        (RequestedStudy(preset="full-site", policies=("best:alone",)), "best:alone: the servers have no backup"),
        (RequestedStudy(preset="backup", policies=("best:nearest",)), "best:nearest: the servers have no sites"),
        (
            RequestedStudy(servers="T3", fields={"outages": (Outage("s1", 500.0),)}),
            "must begin before the run ends at 140 s",
        ),
        (RequestedStudy(recording=DAY, workloads=("html", "cgi")), "only one workload can be specified"),
        (
            RequestedStudy(recording=DAY, replays=True, clients=(SimulatedClients("closed", 3),)),
            "closed-loop clients cannot be combined with --replay",
        ),
        (RequestedStudy(recording=record({"a": {}}, 1, (1,)), replays=True), "the recording must be at least 2 s long"),
        (RequestedStudy(servers="nowhere.toml"), "nowhere.toml: cannot read the file"),
    ],
)
def test_what_can_not_be_run(wanted: RequestedStudy, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_study(wanted)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(FARMS["T3"], outages=(Outage("s4", 1.0),)),
        Scenario(FARMS["T3"], other_work=(OtherWork("s4", 1.0, 2.0, 3.0),)),
        Scenario(FARMS["T3"], slowdowns=(Slowdown("s4", 1.0, 2.0, 0.5),)),
    ],
)
def test_nothing_happens_to_servers_that_are_not_there(scenario: Scenario) -> None:
    with pytest.raises(ConfigError, match=r"no server named 's4'"):
        check_scenario(scenario)
    check_scenario(replace(scenario, servers=(*scenario.servers, ServerSpec("s4"))))

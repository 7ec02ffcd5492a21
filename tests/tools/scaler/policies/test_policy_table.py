"""Tests of the policy table: settings in TOML, promises of every policy, and a policy that is added by one line."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import read_toml
from lbdns_shared.errors import ConfigError
from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies.policy_table import NEED_SETTINGS, POLICIES, read_policies
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation, ScalingPolicy, ScalingRound
from lbdns_tools.scaler.replay.fluid_replay import replay
from lbdns_tools.scaler.replay.replay_settings import ReplaySettings, make_policy
from lbdns_tools.scaler.replay.trace_generator import generate_trace
from tests.tools.scaler.policies.farm_views import MONDAY, DecidingFarm, servers, view

DOCS = Path(__file__).parents[4] / "docs"


def configured(tmp_path: Path, text: str) -> dict[str, ScalingPolicy]:
    (tmp_path / "scaler.toml").write_text(text)
    root = read_toml(tmp_path / "scaler.toml")
    found = read_policies(root)
    root.findings.raise_if_any()
    return dict(found)


def test_settings_are_read_by_name(tmp_path: Path) -> None:
    text = """
[policy.cpu]
add_above = 75
breach = "5min"
[policy.schedule]
entries = ["mon-fri 08:00-18:00 12"]
time_zone = "Europe/Berlin"
[policy.forecast]
days = 7
cores = 4
"""
    found = configured(tmp_path, text)
    assert found["cpu"] == POLICIES["cpu"](add_above=75.0, breach=300.0)
    assert found["forecast"] == POLICIES["forecast"](days=7, cores=4.0)
    assert len(found) == 3
    assert configured(tmp_path, "") == {}


@pytest.mark.parametrize("name", POLICIES)
def test_an_empty_table_has_the_defaults(name: str, tmp_path: Path) -> None:
    assert configured(tmp_path, f"[policy.{name}]") == {name: POLICIES[name]()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[policy.cpu]\nadd_above = 175", "scaler.toml:2: [policy.cpu] add_above: must be a number from 0 to 100"),
        ("[policy.cpu]\nadd_abve = 75", "[policy.cpu] add_abve: unknown key. Perhaps you meant 'add_above'?"),
        ("[policy.cqu]", "scaler.toml:1: [policy.cqu]: unknown policy 'cqu'. Perhaps you meant 'cpu'?"),
        ("policy = 5", "scaler.toml:1: policy: must be a table"),
        ("[policy]\ncpu = 5", "scaler.toml:2: [policy] cpu: must be a table"),
        ('[policy.target]\nmetric = "cup"', "[policy.target] metric: unknown value 'cup'. Perhaps you meant 'cpu'?"),
        ('[policy.schedule]\ntime_zone = "Europe/Berlni"', "Perhaps you meant 'Europe/Berlin'?"),
        ('[policy.schedule]\ntime_zone = "../etc"', "unknown time zone '../etc'; write an IANA name"),
        (
            '[policy.schedule]\nentries = [\n  "mon 08:00-18:00 3",\n  "mon 8-18 3",\n]',
            "scaler.toml:4: [policy.schedule] entries: 'mon 8-18 3': '8-18' is not a period",
        ),
    ],
)
def test_errors_say_where(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        configured(tmp_path, text)
    assert message in str(error.value)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=25, deadline=None)
@given(
    rates=st.lists(st.floats(0, 3000), min_size=1, max_size=60),
    cpus=st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=1, max_size=60),
    start=st.integers(1, 30),
    limits=st.tuples(st.integers(1, 10), st.integers(0, 30)),
)
def test_no_policy_leaves_the_limits(
    name: str, rates: list[float], cpus: list[float | None], start: int, limits: tuple[int, int]
) -> None:
    minimum, maximum = limits[0], limits[0] + limits[1]
    farm = DecidingFarm(POLICIES[name](), max(minimum, min(start, maximum)), minimum, maximum, period=240.0)
    for at, rate in enumerate(rates):
        found = farm.decide(rate, cpus[at % len(cpus)])
        assert minimum <= farm.rounds[-1].recommended <= maximum
        assert found.reason.endswith(".")
        assert re.search(r"\d|unknown", found.reason)
        assert set(found.remove) <= {server.name for server in servers(60)}


@pytest.mark.parametrize("name", ["fixed", "queue", "reactive", "forecast"])
@given(st.floats(0, 3000), st.floats(0, 500), st.integers(1, 20))
def test_more_demand_never_means_fewer_servers(name: str, rate: float, more: float, count: int) -> None:
    policy = POLICIES[name]()
    assert policy.recommend(view(rate, count)).servers <= policy.recommend(view(rate + more, count)).servers


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_is_restart_proof(name: str) -> None:
    """A new instance that sees the same rounds decides the same: nothing is kept but FarmView.rounds."""
    chance = Random(5)
    rates = [300 + 250 * chance.random() for _ in range(300)]
    lasting, restarted = DecidingFarm(POLICIES[name](), 5), DecidingFarm(POLICIES[name](), 5)
    for rate in rates:
        restarted.policy = POLICIES[name]()
        cpu = min(100.0, rate / lasting.count)
        assert lasting.decide(rate, cpu) == restarted.decide(rate, cpu)


@pytest.mark.parametrize("name", POLICIES)
def test_the_history_suffices(name: str) -> None:
    """Rounds older than ``history`` (and one period) change nothing."""
    chance = Random(7)
    farm = DecidingFarm(POLICIES[name](**({"days": 1} if name == "forecast" else {})), 5, period=300.0)
    for _ in range(700):
        rate = 300 + 250 * chance.random()
        cpu = min(100.0, rate / farm.count)
        now = farm.now + farm.period
        kept = [past for past in farm.rounds if past.demand.time >= now - farm.policy.history - farm.period]
        short = farm.policy.recommend(view(rate, farm.count, _at_least_two(kept, farm.rounds), now, cpu=cpu))
        farm.decide(rate, cpu)
        assert short.servers == farm.rounds[-1].recommended


def _at_least_two(kept: Sequence[ScalingRound], rounds: Sequence[ScalingRound]) -> Sequence[ScalingRound]:
    return kept if len(kept) > 1 else rounds[-2:]


@dataclass(frozen=True, slots=True)
class Stopped:
    """A policy that is not in the table: as many servers as there are stopped ones."""

    extra: int = read.integer(2, 0, 9)

    @property
    def history(self) -> float:
        return 0.0

    def recommend(self, view: FarmView) -> Recommendation:
        return Recommendation(view.count(ServerState.STOPPED) + self.extra, f"There are {self.extra} extra servers.")


def test_a_policy_is_added_by_a_file_and_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(POLICIES, "stopped", Stopped)
    policy = configured(tmp_path, "[policy.stopped]\nextra = 3")["stopped"]
    assert policy.recommend(view(0.0, 1, more=servers(4, ServerState.STOPPED))).servers == 7
    trace = generate_trace(1, 1).shifted(MONDAY)
    result = replay(trace, "stopped", make_policy("stopped", ReplaySettings(), {}), ReplaySettings())
    assert (result.policy, result.most_servers) == ("stopped", 2)
    with pytest.raises(AssertionError, match="stopped"):
        test_every_policy_and_setting_is_documented()


def test_every_policy_and_setting_is_documented() -> None:
    text = (DOCS / "reference" / "scaler.md").read_text()
    for name, kind in POLICIES.items():
        section = re.search(rf"^### `{name}`\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
        assert section, name
        for field in fields(kind()):  # type: ignore[arg-type]
            assert f"| `{field.name}` |" in section[1] or (name == "forecast" and f"`{field.name}`" in section[1]), (
                f"{name}: {field.name}"
            )


def test_policies_without_use_are_known() -> None:
    assert set(NEED_SETTINGS) <= set(POLICIES)
    farm = replace(view(500.0, 3), maximum=9)
    assert POLICIES["schedule"]().recommend(farm).servers == 1


@pytest.mark.parametrize("name", POLICIES)
def test_rounds_may_be_a_queue(name: str) -> None:
    """The running scaler keeps its rounds in a deque, which cannot be sliced."""
    farm = DecidingFarm(POLICIES[name](), 5, period=120.0)
    farm.follow([300.0 + at % 90 for at in range(800)], 65.0)
    listed = view(350.0, 5, farm.rounds, farm.now + 120, cpu=75.0)
    assert farm.policy.recommend(listed) == farm.policy.recommend(replace(listed, rounds=deque(farm.rounds)))

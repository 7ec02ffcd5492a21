"""Checks that plots show the given figures and are valid files of the requested type."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools import plot_files
from lbdns_tools.sim import simulation_plots
from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.policy_replay import answered, replay
from lbdns_tools.sim.simulation_output import SimulationRow
from lbdns_tools.sim.simulation_results import SimulationResult, average_runs
from lbdns_tools.sim.simulation_scenario import FARMS, Outage, Scenario, SimulatedClients
from tests.tools.sim.made_up_recordings import record

SHORT = Scenario(FARMS["T3"], "cgi", 0.5, warm_up=2.0, duration=20.0, outages=(Outage("s1", 5.0, 10.0),))
POLICIES = ("best", "round_robin")
BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def runs_of(*scenarios: Scenario) -> list[tuple[Scenario, SimulationResult]]:
    return [(scenario, simulate(scenario, policy, 1)) for scenario in scenarios for policy in POLICIES]


def rows_of(runs: list[tuple[Scenario, SimulationResult]]) -> list[SimulationRow]:
    return [SimulationRow(scenario, average_runs([result])) for scenario, result in runs]


@pytest.fixture(scope="module")
def runs() -> list[tuple[Scenario, SimulationResult]]:
    return runs_of(SHORT, replace(SHORT, load=0.7))


@pytest.mark.parametrize("ending", BEGINNINGS)
@pytest.mark.parametrize("kind", simulation_plots.KINDS)
def test_every_kind_in_every_format(
    kind: str, ending: str, runs: list[tuple[Scenario, SimulationResult]], tmp_path: Path
) -> None:
    path = tmp_path / f"picture.{ending}"
    plot_files.need_matplotlib()
    plot_files.save(simulation_plots.figure_of(kind, rows_of(runs), runs), path)
    assert path.read_bytes().startswith(BEGINNINGS[ending])


def test_the_same_figures_are_the_same_file(runs: list[tuple[Scenario, SimulationResult]], tmp_path: Path) -> None:
    paths = [tmp_path / "one.svg", tmp_path / "two.svg"]
    plot_files.need_matplotlib()
    for path in paths:
        plot_files.save(simulation_plots.figure_of("herding", rows_of(runs), runs), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_response_shows_each_policy_at_each_load(runs: list[tuple[Scenario, SimulationResult]]) -> None:
    rows = rows_of(runs)
    figure = simulation_plots.response(rows)
    above, below = figure.axes
    for axes, figure_of in ((above, "p95_ms"), (below, "mean_ms")):
        lines = {str(line.get_label()): line for line in axes.lines}
        for policy in POLICIES:
            expected = [(row.scenario.load, getattr(row.cell, figure_of)) for row in rows if row.cell.policy == policy]
            assert [tuple(point) for point in lines[policy].get_xydata().tolist()] == expected  # type: ignore[union-attr]
    assert "ms" in above.get_ylabel()
    assert "load" in below.get_xlabel()
    title = figure.get_suptitle()
    assert "Response time against load" in title


def test_response_against_the_number_of_clients() -> None:
    scenarios = [
        replace(SHORT, outages=(), duration=5.0, clients=SimulatedClients("closed", count)) for count in (2, 4)
    ]
    figure = simulation_plots.response(rows_of(runs_of(*scenarios)))
    assert figure.axes[1].get_xlabel() == "clients"
    assert figure.axes[0].lines[0].get_xdata().tolist() == [2, 4]  # type: ignore[union-attr]


def test_herding_of_few_servers_is_lines_with_their_loads(runs: list[tuple[Scenario, SimulationResult]]) -> None:
    figure = simulation_plots.herding(SHORT, [result for scenario, result in runs if scenario is SHORT])
    assert len(figure.axes) == len(POLICIES)
    line = figure.axes[0].lines[2]
    assert line.get_label() == "s3"
    result = runs[0][1]
    assert line.get_ydata().tolist() == [m.load[2] / 2 for m in result.moments if m.time <= SHORT.end]  # type: ignore[union-attr]
    assert figure.axes[0].get_title(loc="left").startswith("best: 95th percentile")


def test_herding_of_many_servers_is_a_map() -> None:
    scenario = Scenario(FARMS["U10"], "cgi", 0.5, warm_up=2.0, duration=20.0)
    result = simulate(scenario, "best", 1)
    figure = simulation_plots.herding(scenario, [result])
    (image,) = figure.axes[0].images
    shown = image.get_array()
    assert shown is not None
    assert shown.shape[0] == 10
    moments = [moment for moment in result.moments if scenario.warm_up <= moment.time <= scenario.end]
    assert shown[3].tolist() == [moment.load[3] / 2 for moment in moments]


def test_replayed_shares_have_a_panel_for_each_policy_and_the_truth(tmp_path: Path) -> None:
    day = record({"a": {"cpu_count": 1.0}, "b": {"cpu_count": 1.0}}, 20, (10, 5))
    replays = [replay(day, policy, 3.0, 0.5) for policy in POLICIES]
    figure = simulation_plots.replayed_shares(answered(day), replays)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["really answered", "best (replayed)", "round_robin (replayed)"]
    path = tmp_path / "day.svg"
    plot_files.save(simulation_plots.replayed_shares(None, replays), path)
    text = "".join(ElementTree.parse(path).getroot().itertext())
    assert "really answered" not in text
    assert "round_robin (replayed)" in text


def test_more_policies_than_colours_still_draw() -> None:
    result = simulate(replace(SHORT, duration=2.0), "best", 1)
    names = [f"policy{i}" for i in range(9)]
    rows = [SimulationRow(SHORT, average_runs([replace(result, policy=name)])) for name in names]
    assert {str(line.get_label()) for line in simulation_plots.response(rows).axes[0].lines} >= set(names)


@pytest.mark.parametrize(("name", "message"), [("x.gif", "one of .png, .svg, .pdf"), ("no/x.png", "does not exist")])
def test_files_that_can_not_be_drawn(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        plot_files.check_file(tmp_path / name)


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(LbdnsError, match=r"pip install 'lbdns-tools\[lab\]'"):
        plot_files.check_file(tmp_path / "x.png")

"""Pictures: that they show the figures they are given, and are files of their kind."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lbdns.errors import ConfigError, LbdnsError
from lbdns_tools import pictures
from lbdns_tools.sim import plots
from lbdns_tools.sim.engine import run
from lbdns_tools.sim.farms import FARMS
from lbdns_tools.sim.output import Row
from lbdns_tools.sim.replay import answered, replay
from lbdns_tools.sim.results import Result, cell
from lbdns_tools.sim.scenario import Clients, Outage, Scenario
from tests.tools.sim.records import record

SHORT = Scenario(FARMS["T3"], "cgi", 0.5, warm_up=2.0, duration=20.0, outages=(Outage("s1", 5.0, 10.0),))
POLICIES = ("best", "round_robin")
BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def runs_of(*scenarios: Scenario) -> list[tuple[Scenario, Result]]:
    return [(scenario, run(scenario, policy, 1)) for scenario in scenarios for policy in POLICIES]


def rows_of(runs: list[tuple[Scenario, Result]]) -> list[Row]:
    return [Row(scenario, cell([result])) for scenario, result in runs]


@pytest.fixture(scope="module")
def runs() -> list[tuple[Scenario, Result]]:
    return runs_of(SHORT, replace(SHORT, load=0.7))


@pytest.mark.parametrize("ending", BEGINNINGS)
@pytest.mark.parametrize("kind", plots.KINDS)
def test_every_kind_in_every_format(
    kind: str, ending: str, runs: list[tuple[Scenario, Result]], tmp_path: Path
) -> None:
    path = tmp_path / f"picture.{ending}"
    plots.draw(path, kind, rows_of(runs), runs)
    assert path.read_bytes().startswith(BEGINNINGS[ending])


def test_the_same_figures_are_the_same_file(runs: list[tuple[Scenario, Result]], tmp_path: Path) -> None:
    paths = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for path in paths:
        plots.draw(path, "herding", rows_of(runs), runs)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_response_shows_each_policy_at_each_load(runs: list[tuple[Scenario, Result]]) -> None:
    rows = rows_of(runs)
    figure = plots.response(rows)
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
    scenarios = [replace(SHORT, outages=(), duration=5.0, clients=Clients("closed", count)) for count in (2, 4)]
    figure = plots.response(rows_of(runs_of(*scenarios)))
    assert figure.axes[1].get_xlabel() == "clients"
    assert figure.axes[0].lines[0].get_xdata().tolist() == [2, 4]  # type: ignore[union-attr]


def test_herding_of_few_servers_is_lines_with_their_loads(runs: list[tuple[Scenario, Result]]) -> None:
    figure = plots.herding(SHORT, [result for scenario, result in runs if scenario is SHORT])
    assert len(figure.axes) == len(POLICIES)
    line = figure.axes[0].lines[2]
    assert line.get_label() == "s3"
    result = runs[0][1]
    assert line.get_ydata().tolist() == [m.load[2] / 2 for m in result.moments if m.time <= SHORT.end]  # type: ignore[union-attr]
    assert figure.axes[0].get_title(loc="left").startswith("best: 95th percentile")


def test_herding_of_many_servers_is_a_map() -> None:
    scenario = Scenario(FARMS["U10"], "cgi", 0.5, warm_up=2.0, duration=20.0)
    result = run(scenario, "best", 1)
    figure = plots.herding(scenario, [result])
    (image,) = figure.axes[0].images
    shown = image.get_array()
    assert shown is not None
    assert shown.shape[0] == 10
    moments = [moment for moment in result.moments if scenario.warm_up <= moment.time <= scenario.end]
    assert shown[3].tolist() == [moment.load[3] / 2 for moment in moments]


def test_replayed_shares_have_a_panel_for_each_policy_and_the_truth(tmp_path: Path) -> None:
    day = record({"a": {"cpu_count": 1.0}, "b": {"cpu_count": 1.0}}, 20, (10, 5))
    replays = [replay(day, policy, 3.0, 0.5) for policy in POLICIES]
    figure = plots.replayed_shares(answered(day), replays)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["really answered", "best (replayed)", "round_robin (replayed)"]
    path = tmp_path / "day.svg"
    plots.draw_replay(path, None, replays)
    text = "".join(ElementTree.parse(path).getroot().itertext())
    assert "really answered" not in text
    assert "round_robin (replayed)" in text


def test_more_policies_than_colours_still_draw() -> None:
    result = run(replace(SHORT, duration=2.0), "best", 1)
    names = [f"policy{i}" for i in range(9)]
    rows = [Row(SHORT, cell([replace(result, policy=name)])) for name in names]
    assert {str(line.get_label()) for line in plots.response(rows).axes[0].lines} >= set(names)


@pytest.mark.parametrize(
    ("name", "message"), [("x.gif", "one of .png, .svg, .pdf"), ("no/x.png", "there is no folder")]
)
def test_files_that_can_not_be_drawn(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        pictures.check_file(tmp_path / name)


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(LbdnsError, match=r"pip install 'lbdns\[lab\]'"):
        pictures.check_file(tmp_path / "x.png")

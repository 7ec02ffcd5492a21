"""Checks that charts show the given data, leave gaps for missing results, and support dark mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.report import report_charts, webstone_1999
from lbdns_tools.plot_files import save
from tests.tools.load.test_load_plots import texts, xs, ys

SERIES: report_charts.Series = {
    "round_robin": [(40, 3.0), (20, 1.0), (20, 2.0), (30, None)],
    "best": [(20, 5.0), (30, 6.0), (40, 7.0)],
}
DRAW: dict[str, Callable[[Path], None]] = {
    "lines": lambda path: report_charts.lines(path, SERIES, "clients", "requests/s"),
    "log": lambda path: report_charts.lines(path, SERIES, "clients", "requests/s", log=True),
    "1999": lambda path: report_charts.beside_1999(
        path, SERIES, webstone_1999.series("connections_per_s", "cgi"), "clients", "requests/s"
    ),
    "time": lambda path: report_charts.over_time(path, {"requests/s": SERIES, "CPU": {}}, marks={"bilbo dies": 25.0}),
    "bars": lambda path: report_charts.bars(path, {"html": {"best": 2.0, "pound": None}, "cgi": {"best": 1.0}}, "x/s"),
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Figure]:
    """Return a function that calls one of the module's drawing functions and returns the figure that was drawn."""
    figures: list[Figure] = []

    def keep(figure: Figure, path: Path) -> None:
        figures.append(figure)
        save(figure, path)

    monkeypatch.setattr(report_charts, "save", keep)

    def draw(function: Callable[..., None], *arguments: Any, **more: Any) -> Figure:
        function(tmp_path / "picture.svg", *arguments, **more)
        return figures[-1]

    return draw


@pytest.mark.parametrize("kind", DRAW)
def test_every_kind_is_an_svg_for_light_and_dark(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    DRAW[kind](path)
    ElementTree.parse(path)
    text = path.read_text()
    assert "@media (prefers-color-scheme: dark)" in text
    assert 'style="fill: #ffffff"' in text  # the ground, which the rule for dark pages changes
    assert "best" in "".join(texts(path))


@pytest.mark.parametrize("kind", DRAW)
def test_the_same_figures_are_the_same_file(kind: str, tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        DRAW[kind](tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_repetitions_are_a_mean_with_whiskers(drawn: Callable[..., Figure]) -> None:
    axes = drawn(report_charts.lines, SERIES, "clients", "requests/s").axes[0]
    lines = {str(line.get_label()): line for line in axes.lines}
    assert xs(lines["round_robin"]) == [20, 30, 40]
    assert ys(lines["round_robin"])[0] == 1.5
    assert math.isnan(ys(lines["round_robin"])[1])
    whiskers = axes.collections[0].get_paths()
    assert np.asarray(whiskers[0].vertices).tolist() == [[20.0, 1.0], [20.0, 2.0]]
    assert len(axes.collections) == 1  # best was measured once
    assert axes.get_ylim()[0] == 0


def test_a_selection_looks_the_same_in_every_picture(drawn: Callable[..., Figure]) -> None:
    colours = []
    for series in (SERIES, {"best": SERIES["best"]}, {"haproxy": SERIES["best"], "best": SERIES["best"]}):
        axes = drawn(report_charts.lines, series, "x", "y").axes[0]
        colours.append(next(line.get_color() for line in axes.lines if line.get_label() == "best"))
    assert len(set(colours)) == 1


def test_lines_of_one_picture_differ(drawn: Callable[..., Figure]) -> None:
    series = dict.fromkeys(("gandalf", "best", "nginx", "bilbo", "frodo"), SERIES["best"])
    lines = drawn(report_charts.lines, series, "x", "y").axes[0].lines
    assert len({line.get_color() for line in lines}) == 5
    assert [str(line.get_label()) for line in lines][:2] == ["best", "nginx"]


def test_beside_1999_has_axes_of_its_own(drawn: Callable[..., Figure]) -> None:
    then = webstone_1999.series("connections_per_s", "cgi")
    left, right = drawn(report_charts.beside_1999, SERIES, then, "clients", "connections/s").axes
    assert (left.get_title(loc="left"), right.get_title(loc="left")) == ("measured here", "1999")
    assert left.get_ylim()[1] < 20 < right.get_ylim()[1]
    colour = {line.get_label(): line.get_color() for line in left.lines}
    assert all(colour.get(line.get_label(), line.get_color()) == line.get_color() for line in right.lines)
    best = next(line for line in right.lines if line.get_label() == "best")
    assert ys(best)[0] == 77.82


def test_there_is_room_above_what_is_nearly_level(drawn: Callable[..., Figure]) -> None:
    level = {"best": [(20, 300.0), (20, 330.0), (40, 302.0)]}
    axes = drawn(report_charts.lines, level, "clients", "requests/s").axes[0]
    assert axes.get_ylim() == pytest.approx((0.0, 1.05 * 330.0)), "the highest repetition is not at the edge"
    assert drawn(report_charts.lines, {"best": [(1, 0.0)]}, "x", "y").axes[0].get_ylim()[0] == 0.0


def test_what_happened_is_marked_in_every_panel(drawn: Callable[..., Figure]) -> None:
    figure = drawn(report_charts.over_time, {"requests/s": SERIES, "CPU": SERIES}, marks={"bilbo dies": 25.0})
    for axes in figure.axes:
        assert [25.0, 25.0] in [xs(line) for line in axes.lines]
    assert [text.get_text() for text in figure.axes[0].texts] == ["bilbo dies"]


def test_nothing_measured_says_so(drawn: Callable[..., Figure]) -> None:
    axes = drawn(report_charts.lines, {"best": [(1, None)]}, "x", "y", log=True).axes[0]
    assert [text.get_text() for text in axes.texts] == ["no result"]
    shared = drawn(report_charts.over_time, {"a": SERIES, "b": {"best": [(1, None)]}})
    assert len(shared.axes[0].get_xticks()) > 1  # a panel without a result leaves the others theirs


def test_bars_have_their_values_above(drawn: Callable[..., Figure]) -> None:
    axes = drawn(report_charts.bars, {"html": {"best": 1234.5, "pound": None}, "cgi": {"best": 2.0}}, "x/s").axes[0]
    heights = [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
    assert heights[:2] == [1234.5, 2.0]
    assert [text.get_text() for text in axes.texts if text.get_text()] == [
        "1,234", "2", "no result", "no result",
    ]  # fmt: skip


def test_bars_of_very_different_heights_may_have_a_logarithmic_axis(drawn: Callable[..., Figure]) -> None:
    figure = drawn(report_charts.bars, {"html": {"best": 20.0, "pound": 7000.0}}, "ms", log=True)
    assert figure.axes[0].get_yscale() == "log"
    assert drawn(report_charts.bars, {"html": {"best": 20.0}}, "ms").axes[0].get_yscale() == "linear"


def test_a_file_that_can_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match=r"cannot write the file"):
        DRAW["lines"](tmp_path / "nowhere" / "picture.svg")

"""Checks that plots of measurements show the given figures and leave gaps for missing results."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.lines import Line2D

from lbdns_tools.load import load_plots
from lbdns_tools.load.capacity_search import FailureCriteria, frontier
from lbdns_tools.load.result_rows import ResultRow
from tests.tools.load.made_up_rows import row

EDGES = frontier(
    lambda count, rate: row(requests=500 if rate * count < 4000 else 0).figures, FailureCriteria(), (10, 30), 5.0, 40.0
)
SWEEP = [row(clients, 400 * clients, repetition=r) for clients in (1, 2, 4) for r in (1, 2)]
TEXT = "{http://www.w3.org/2000/svg}text"


def texts(path: Path) -> set[str]:
    return {"".join(element.itertext()).strip() for element in ElementTree.parse(path).iter(TEXT)}


def xs(line: Line2D) -> list[float]:
    return [float(value) for value in np.asarray(line.get_xdata())]


def ys(line: Line2D) -> list[float]:
    return [float(value) for value in np.asarray(line.get_ydata())]


def test_a_picture_of_each_kind(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.svg" for name in ("sweep", "once", "frontier")]
    load_plots.draw(paths[0], SWEEP)
    load_plots.draw(paths[1], [row(20, failed=0.2, label="the only run")])
    load_plots.draw(paths[2], [], EDGES)
    assert {"clients", "median", "198.18.0.2", "failed requests, %"} <= texts(paths[0])
    assert {"the only run", "started", "failed", "time, s"} <= texts(paths[1])
    assert {"connections", "highest rate that passed"} <= texts(paths[2])


def test_a_sweep_shows_its_figures() -> None:
    rates = load_plots.sweep(SWEEP).axes[0]
    assert xs(rates.lines[0]) == [1, 2, 4]
    assert ys(rates.lines[0]) == [40, 80, 160]


def test_no_result_is_a_gap() -> None:
    figure = load_plots.sweep([row(1), row(2, 0), row(3)])
    for panel in figure.axes:
        for line in panel.lines[:1]:
            assert xs(line) == [1, 2, 3]
            assert [math.isnan(value) for value in ys(line)] == [False, True, False]


def test_labels_are_lines() -> None:
    rows = [row(clients, label=label) for label in ("best", "round_robin") for clients in (4, 2)]
    figure = load_plots.sweep(rows)
    _, labels = figure.axes[0].get_legend_handles_labels()
    assert labels == ["best", "round_robin"]
    assert xs(figure.axes[0].lines[0]) == [2, 4]


def test_runs_without_a_number_have_places() -> None:
    figure = load_plots.sweep([row(None, label="a"), row(5, label="b")])
    assert xs(figure.axes[0].lines[0]) == [1, 2]


def test_over_time_counts_every_request() -> None:
    of = row(20, 700, failed=0.1)
    started, well, failed = load_plots.over_time([of]).axes[0].lines
    assert sum(ys(started)) == 700
    assert sum(ys(well)) == of.figures.ok
    assert sum(ys(failed)) == of.figures.failed


def test_nothing_measured_still_is_a_picture(tmp_path: Path) -> None:
    load_plots.draw(tmp_path / "empty.png", [row(20, 0)])
    assert (tmp_path / "empty.png").read_bytes().startswith(b"\x89PNG")


def test_a_frontier_shows_every_trial() -> None:
    figure = load_plots.frontier(EDGES)
    shown = sum(len(np.asarray(of.get_offsets())) for of in figure.axes[0].collections)
    assert shown == sum(len(edge.found.trials) for edge in EDGES)


@pytest.mark.parametrize("rows", [SWEEP, SWEEP[:2]])
def test_the_same_figures_are_the_same_file(rows: list[ResultRow], tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        load_plots.draw(tmp_path / name, rows)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()

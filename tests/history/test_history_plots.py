"""Tests of the data for plots: lines agree with the series of single members, and the others are summarized."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.config.recording_sections import HistoryConfig
from lbdns.history.history_plots import PlotRequest, read_plots
from lbdns.history.history_reader import HistoryReader
from lbdns.history.history_recorder import HistoryRecorder
from lbdns_shared.errors import ConfigError
from tests.history.history_samples import BEGIN, fill, pool, sample

SECONDS = 400
LOADS = {"a": 50.0, "b": 20.0, "c": 80.0, "d": 35.0}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "history.db"
    found = (sample(n, pool(n, {name: load + n % 20 for name, load in LOADS.items()})) for n in range(SECONDS))
    fill(HistoryRecorder(path, HistoryConfig()), found)
    return path


def request(metric: str, members: list[str], step: float = 10.0) -> PlotRequest:
    return PlotRequest("web", [metric], ["types"], members, BEGIN, BEGIN + SECONDS, step)


@pytest.mark.parametrize(("step", "tier"), [(1.0, "raw"), (4.0, "raw"), (10.0, "10s"), (40.0, "10s"), (60.0, "1min")])
def test_the_step_selects_the_tier(file: Path, step: float, tier: str) -> None:
    found = read_plots(file, request("cpu_idle", ["a"], step))
    assert (found.tier, found.step_s) == (tier, step)


@pytest.mark.parametrize("step", [1.0, 4.0, 10.0, 40.0])
def test_lines_agree_with_the_series_of_single_members(file: Path, step: float) -> None:
    found = read_plots(file, request("cpu_idle", ["c", "a"], step))
    series = HistoryReader(file).series("web", "cpu_idle", ["c", "a"], BEGIN, BEGIN + SECONDS, int(SECONDS / step))
    assert tuple(found.times) == series.times
    for name, values in series.series.items():
        assert found.metrics["cpu_idle"].series[name] == pytest.approx(values, rel=1e-4)


def test_other_members_have_a_mean_and_extremes(file: Path) -> None:
    others = read_plots(file, request("cpu_idle", ["c", "a"])).metrics["cpu_idle"].others
    series = HistoryReader(file).series("web", "cpu_idle", ["b", "d"], BEGIN, BEGIN + SECONDS, SECONDS // 10)
    pairs = list(zip(*series.series.values(), strict=True))
    assert others["mean"] == pytest.approx([sum(pair) / 2 for pair in pairs], rel=1e-3)
    assert others["lowest"] == pytest.approx([min(pair) for pair in pairs], rel=1e-3)
    assert others["highest"] == pytest.approx([max(pair) for pair in pairs], rel=1e-3)


def test_the_rates_of_other_members_are_added(file: Path) -> None:
    found = read_plots(file, request("answers", ["a"]))
    assert found.metrics["answers"].series["a"][5] == pytest.approx(10)
    assert found.metrics["answers"].others["sum"][5] == pytest.approx(20 + 30 + 40)
    assert found.server["types"]["A"][5] == pytest.approx(30)


def test_a_silent_member_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    fill(
        HistoryRecorder(path, HistoryConfig()),
        (sample(n, pool(n, LOADS, readings=(None, *pool(n, LOADS).readings[1:]))) for n in range(30)),
    )
    others = read_plots(path, PlotRequest("web", ["cpu_idle"], [], ["d"], BEGIN, BEGIN + 30, 1.0)).metrics["cpu_idle"]
    assert others.others["mean"][3] == pytest.approx(50)
    assert others.others["lowest"][3] == pytest.approx(20)


def test_no_summary_if_every_member_has_a_line(file: Path) -> None:
    assert read_plots(file, request("score", list(LOADS))).metrics["score"].others == {}


def test_a_metric_that_was_never_recorded_has_no_values(file: Path) -> None:
    plot = read_plots(file, request("busy_workers", ["a"])).metrics["busy_workers"]
    assert set(plot.series["a"]) == {None}
    assert plot.others == {}


def test_states_have_no_means(file: Path) -> None:
    with pytest.raises(ConfigError, match="read /api/v1/history instead"):
        read_plots(file, request("state", ["a"]))


def test_a_span_must_not_be_empty(file: Path) -> None:
    with pytest.raises(ConfigError, match="'from' must be earlier"):
        read_plots(file, PlotRequest("web", ["score"], [], [], BEGIN, BEGIN, 1.0))

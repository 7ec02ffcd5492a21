"""How samples become figures: medians, ratios round by round, slopes."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lbdns_tools.bench.dns import command, endurance, latency, peers, startup
from lbdns_tools.bench.dns.processes import BenchError


def sample(rate: float, cost: float, lost: int = 0) -> peers.Sample:
    return peers.Sample(queries_per_s=rate, cpu_us_per_query=cost, busy=0.5, answered=100, lost=lost)


def test_ratios_are_made_within_a_round() -> None:
    # A machine that is half as fast in one round changes no ratio
    rounds = [{"lbdns": sample(80 / slow, 6 * slow, 1), "nsd": sample(100 / slow, 4 * slow)} for slow in (1, 2, 1)]
    found = peers.summary(rounds)
    assert found["nsd"]["rate_ratio"] == 0.8
    assert found["nsd"]["cpu_ratio"] == 1.5
    assert found["lbdns"]["cpu_us_per_query"] == 6
    assert (found["lbdns"]["lost"], found["nsd"]["lost"]) == (3, 0)
    assert found["lbdns"]["busy_percent"] == 50


def test_a_round_without_a_figure_does_not_count() -> None:
    assert command.ratios([1, 2, 3], [2, 0, 2]) == 1.0
    assert command.ratios([1], [0]) == 0


def test_latency_ratios_are_of_the_same_round() -> None:
    ours = [dict.fromkeys(latency.FIGURES, value) for value in (1.0, 4.0, 2.0)]
    theirs = [dict.fromkeys(latency.FIGURES, value) for value in (1.0, 1.0, 1.0)]
    found = latency.summary({"lbdns": ours, "nsd": theirs})
    assert found["nsd"]["lbdns_to_it_kernel_p99"] == 2
    assert found["lbdns"]["lbdns_to_it_kernel_p99"] == 1
    assert found["lbdns"]["kernel_p99_ms"] == 2


def test_slope_is_of_bytes_over_queries() -> None:
    # 1000 bytes/s at 10,000 queries/s are 0.1 byte a query, 100 kB a million
    assert endurance.slope([(float(second), 5_000_000 + 1000 * second) for second in range(10)], 10_000) == 100
    assert endurance.slope([(0.0, 1), (1.0, 1), (2.0, 1)], 10_000) == 0
    assert endurance.slope([(0.0, 1)], 10_000) == 0


def test_the_slowest_imports_come_first() -> None:
    heads = "import time: self [us] | cumulative | imported package\n"
    text = heads + "import time:        30 |        500 | b\nimport time:        40 |         40 |   a\n"
    assert startup.slowest(text) == [(40, "a"), (30, "b")]


def test_the_names_of_a_large_zone_differ() -> None:
    lines = startup.names(70_000).splitlines()
    assert len({line.split()[0] for line in lines}) == len({line.split()[2] for line in lines}) == 70_000


def test_good_queries_stand_between_random_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endurance, "NAMES", 50)
    lines = endurance.query_file(tmp_path, seed=1).read_text().splitlines()
    assert len(lines) == 100
    assert lines[1::10] == ["best.hobbit A"] * 10


def run_command(monkeypatch: pytest.MonkeyPatch, *words: str, measure: Any) -> int:
    monkeypatch.setattr("sys.argv", ["bench", *words])
    monkeypatch.setattr(command, "stay_on", lambda core: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    made = command.parser("example", "doc", "a second")
    command.bound(made, "--seconds", float, 1, 5, 2, "seconds")
    return command.run(made, measure, lambda figures, console: console.print(command.noted(figures)))


def test_figures_are_shown_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
        assert folder.is_dir()
        return {"note": "rate limiting: on", "seconds": options.seconds}

    assert run_command(monkeypatch, "--json", str(tmp_path / "out.json"), measure=measure) == 0
    assert '"seconds": 2.0' in (tmp_path / "out.json").read_text()
    assert "rate limiting: on" in capsys.readouterr().out


def test_what_can_not_be_measured_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
        raise BenchError("there is no nsd")

    assert run_command(monkeypatch, measure=measure) == 1
    assert capsys.readouterr().err.endswith("example: there is no nsd\n")


def test_a_file_that_can_not_be_written_is_told_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, "--json", str(tmp_path / "no" / "out.json"), measure=None) == 1
    assert "can't be written: No such file or directory" in capsys.readouterr().err


def test_bounds_are_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_command(monkeypatch, "--seconds", "6", measure=None)
    assert "6 is not between 1 and 5" in capsys.readouterr().err


def test_a_table_shows_every_row() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(command.table("title", ("name", "figure"), [("lbdns", 1.5), ("nsd", 2)]))
    shown = console.export_text()
    assert all(word in shown for word in ("title", "figure", "lbdns", "1.5", "nsd"))

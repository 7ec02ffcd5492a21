"""Tests of the command line of every benchmark: options, results as text and as JSON, and the exit status."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.measured_processes import BenchmarkError


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, measure: Any) -> int:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    module = SimpleNamespace(
        __doc__="What it measures.", TAKES="a second", EXAMPLE="--seconds 3", measure=measure,
        add_options=lambda parser: command.add_number(parser, "--seconds", float, 1, 5, 2, "seconds"),
        TARGET_TEXT="at most 3 s", tables=lambda results: [command.figures("example", results)],
    )  # fmt: skip
    return command.run_benchmark("bench example", cast(command.BenchmarkModule, module), arguments)


def test_results_are_shown_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(options: argparse.Namespace, folder: Path) -> command.Results:
        assert folder.is_dir()
        return {"note": "rate limiting: on", "seconds": options.seconds}

    assert run(monkeypatch, "--json", str(tmp_path / "out.json"), measure=measure) == 0
    assert '"seconds": 2.0' in (tmp_path / "out.json").read_text()
    assert "rate limiting: on" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("met", "arguments", "status"), [(False, ["--fail"], 1), (True, ["--fail"], 0), (False, [], 0)]
)
def test_a_missed_target_fails_on_request(
    met: bool, arguments: list[str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, *arguments, measure=lambda options, folder: {"met": met}) == status


def test_help_has_the_duration_and_an_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        run(monkeypatch, "--help", measure=None)
    text = capsys.readouterr().out
    assert "What it measures." in text
    assert "With its default options, the benchmark takes a second." in text
    assert "example: bench example --seconds 3" in text


def test_a_benchmark_that_can_not_run_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(options: argparse.Namespace, folder: Path) -> command.Results:
        raise BenchmarkError("nsd is not installed")

    assert run(monkeypatch, measure=measure) == 1
    assert capsys.readouterr().err == "bench example: nsd is not installed\n"


def test_a_json_file_that_can_not_be_written_is_an_error_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--json", str(tmp_path / "no" / "out.json"), measure=None) == 1
    assert "cannot write the file: No such file or directory" in capsys.readouterr().err


def test_numbers_have_bounds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, "--seconds", "6", measure=None)
    assert "must be between 1 and 5, not 6" in capsys.readouterr().err


def test_a_round_without_a_figure_does_not_count() -> None:
    assert command.median_ratio([1, 2, 3], [2, 0, 2]) == 1.0
    assert command.median_ratio([1], [0]) == 0


def test_a_table_shows_every_row() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(command.table("title", ("name", "figure"), [("lbdns", 1.5), ("nsd", 2)]))
    shown = console.export_text()
    assert all(word in shown for word in ("title", "figure", "lbdns", "1.5", "nsd"))


def test_an_option_with_several_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    command.add_numbers(parser, "--agents", 1, 100, [5, 10], "agents")
    assert parser.parse_args([]).agents == [5, 10]
    assert parser.parse_args(["--agents", "7", "100"]).agents == [7, 100]
    with pytest.raises(SystemExit):
        parser.parse_args(["--agents", "7", "101"])
    assert "must be between 1 and 100, not 101" in capsys.readouterr().err

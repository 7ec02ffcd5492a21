"""Checks that all short benchmarks run in order, and that results are compared with saved figures and then saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench import all_benchmarks
from lbdns_tools.bench.all_benchmarks import HEAD, KeptFigure, figures_file, read_figures, with_figures
from lbdns_tools.bench.benchmark_table import BENCHMARKS

RESULTS = {"work_ms": 12.3456, "longest_step_ms": 2.0, "cores": 2}
RULE = "|---|---|---|---|---|---|"
ROW = "| dns.peers | CPU per query | 5.25 | us | 2 cores | 2026-11-01 |"
TEXT = f"# Benchmarks\n\n{HEAD}\n{RULE}\n{ROW}\n\nMore text.\n"
FIGURE = KeptFigure("dns.peers", "CPU per query", 5.25, "us", "2 cores", "2026-11-01")


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a file for saved figures, and make all benchmarks except 'scrape' fail."""

    def results_of(name: str, seconds: float) -> dict[str, Any]:
        if name != "scrape":
            raise LbdnsError("broken")
        return RESULTS

    path = tmp_path / "benchmarks.md"
    path.write_text(f"{HEAD}\n{RULE}\n")
    monkeypatch.setattr(all_benchmarks, "results_of", results_of)
    monkeypatch.setattr(all_benchmarks, "figures_file", lambda: path)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    return path


def test_figures_are_kept_and_compared(
    docs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert all_benchmarks.main("all", ["--only", "scrape", "--update"]) == 0
    assert "new" in capsys.readouterr().out
    assert read_figures(docs.read_text())["scrape", "CPU per scrape"].value == 12.35
    assert all_benchmarks.main("all", ["--only", "scrape", "--fail"]) == 0
    assert "WORSE" not in capsys.readouterr().out
    monkeypatch.setitem(RESULTS, "work_ms", 24.0)
    assert all_benchmarks.main("all", ["--only", "scrape"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "WORSE" in line)
    assert all(word in line for word in ("CPU per scrape", "24 ms", "12.35", "+94 %"))
    assert all_benchmarks.main("all", ["--only", "scrape", "--fail"]) == 1
    monkeypatch.setitem(RESULTS, "cores", 64)
    assert all_benchmarks.main("all", ["--only", "scrape", "--fail"]) == 0
    assert "other conditions" in capsys.readouterr().out


def test_a_benchmark_that_fails_is_named_and_the_others_run(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert all_benchmarks.main("all", []) == 1
    captured = capsys.readouterr()
    assert "CPU per scrape" in captured.out
    assert captured.err.count("broken") == len(BENCHMARKS) - 1


def test_a_busy_machine_is_mentioned(
    docs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 1.0, 1.0))
    assert all_benchmarks.main("all", ["--only", "scrape"]) == 0
    assert "Repeat the run on an idle machine" in capsys.readouterr().out


def test_missing_figures_are_an_error(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RESULTS, "work_ms")
    _, errors = all_benchmarks.run_all(["scrape"])
    assert errors == {"scrape": "the figure 'work_ms' is missing from the results"}


def test_the_time_for_all_is_limited(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_benchmarks, "LIMIT", 0.0)
    _, errors = all_benchmarks.run_all(["scrape"])
    assert "not run" in errors["scrape"]


def test_a_short_form_runs_in_a_process_of_its_own() -> None:
    results = all_benchmarks.results_of("scrape", 60)
    assert results["members"] == 1000
    with pytest.raises(LbdnsError, match=r"did not finish within 0\.01 s"):
        all_benchmarks.results_of("scrape", 0.01)


def test_figures_are_read() -> None:
    assert read_figures(TEXT) == {("dns.peers", "CPU per query"): FIGURE}


def test_a_figure_replaces_its_row_and_the_others_stay() -> None:
    newer = KeptFigure("dns.peers", "CPU per query", 123456.0, "us", "4 cores", "2026-12-01")
    other = KeptFigure("scrape", "CPU", 0.5, "ms", "", "2026-12-01")
    text = with_figures(TEXT, [other])
    assert text == TEXT.replace(ROW, f"{ROW}\n| scrape | CPU | 0.5 | ms |  | 2026-12-01 |")
    assert read_figures(with_figures(text, [newer])) == {
        ("dns.peers", "CPU per query"): newer, ("scrape", "CPU"): other,
    }  # fmt: skip
    assert with_figures(TEXT, []) == TEXT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# Benchmarks\n", "must contain a table that begins with"),
        (TEXT.replace("5.25", "fast"), "each row must have six cells, with a number in the third"),
        (TEXT.replace(" us |", ""), "each row must have six cells"),
    ],
)
def test_a_table_that_is_missing_or_broken_is_an_error(text: str, message: str) -> None:
    with pytest.raises(LbdnsError, match=message):
        read_figures(text)


def test_the_file_is_found_in_any_folder_of_the_docs(tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match="run this command from a checkout"):
        figures_file(tmp_path)
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    path = tmp_path / "docs" / "reference" / "benchmarks.md"
    path.touch()
    assert figures_file(tmp_path) == path

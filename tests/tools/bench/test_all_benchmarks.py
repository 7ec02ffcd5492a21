"""The short forms of all benchmarks: run one after another, compared with the kept figures, and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench import all_benchmarks
from lbdns_tools.bench.benchmark_table import BENCHMARKS
from lbdns_tools.bench.kept_figures import HEAD, RULE, read_figures

RESULTS = {"work_ms": 12.3456, "longest_step_ms": 2.0, "cores": 2}


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of kept figures; benchmarks other than 'scrape' fail."""

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
    assert "repeat this on a quiet machine" in capsys.readouterr().out


def test_missing_figures_are_an_error(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RESULTS, "work_ms")
    _, errors = all_benchmarks.run_all(["scrape"])
    assert errors == {"scrape": "its results have no figure at 'work_ms'"}


def test_the_time_for_all_is_limited(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_benchmarks, "LIMIT", 0.0)
    _, errors = all_benchmarks.run_all(["scrape"])
    assert "not run" in errors["scrape"]


def test_a_short_form_runs_in_a_process_of_its_own() -> None:
    results = all_benchmarks.results_of("scrape", 60)
    assert results["members"] == 1000
    with pytest.raises(LbdnsError, match="did not end within 0 s"):
        all_benchmarks.results_of("scrape", 0.01)

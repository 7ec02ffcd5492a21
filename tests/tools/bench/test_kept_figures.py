"""The table of figures in the docs: read, and rewritten in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.kept_figures import HEAD, RULE, KeptFigure, figures_file, read_figures, with_figures

ROW = "| dns.peers | CPU per query | 5.25 | us | 2 cores | 2026-11-01 |"
TEXT = f"# Benchmarks\n\n{HEAD}\n{RULE}\n{ROW}\n\nMore text.\n"
FIGURE = KeptFigure("dns.peers", "CPU per query", 5.25, "us", "2 cores", "2026-11-01")


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
        ("# Benchmarks\n", "has no table that begins with"),
        (TEXT.replace("5.25", "fast"), "not a row of six cells with a number in the third"),
        (TEXT.replace(" us |", ""), "not a row of six cells"),
    ],
)
def test_a_table_that_is_missing_or_broken_is_an_error(text: str, message: str) -> None:
    with pytest.raises(LbdnsError, match=message):
        read_figures(text)


def test_the_file_is_found_in_any_folder_of_the_docs(tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match="run this in a checkout"):
        figures_file(tmp_path)
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    path = tmp_path / "docs" / "reference" / "benchmarks.md"
    path.touch()
    assert figures_file(tmp_path) == path

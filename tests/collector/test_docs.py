"""Compares the reference pages about scores and reports with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lbdns.scores.derived_metrics import DERIVED_METRICS
from lbdns.scores.headroom import HEADROOM
from lbdns.scores.thesis import THESIS
from lbdns_shared.metric_catalogue import CATALOGUE
from lbdns_shared.report import REASONS

DOCS = Path(__file__).parent.parent.parent / "docs" / "reference"


def rows(page: str) -> list[list[str]]:
    """Return the cells of every row of every table on a page."""
    lines = (DOCS / page).read_text().splitlines()
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_every_metric_is_listed_with_its_unit() -> None:
    listed = {row[0]: tuple(row[1:]) for row in rows("scores.md") if len(row) == 4 and row[0] in CATALOGUE}
    thesis = {"run_queue", "cpu_idle", "gateway_ping", "requests_per_s", "scan_rate", "idle_workers"}
    assert listed == {n: (m.unit, m.meaning, m.better or "-") for n, m in CATALOGUE.items()}
    assert set(THESIS.terms) == thesis
    derived = {row[0]: tuple(row[1:]) for row in rows("scores.md") if len(row) == 4 and row[0] in DERIVED_METRICS}
    assert derived == {n: (m.unit, m.meaning, m.better) for n, m in DERIVED_METRICS.items()}


def test_every_weight_is_listed() -> None:
    text = (DOCS / "scores.md").read_text()
    for metric, term in (*THESIS.terms.items(), *HEADROOM.terms.items()):
        weight = f"{round(term.weight, 2):g}"
        assert re.search(rf"^\| `{metric}` \| `{weight} \*.* / {term.limit:g}` \|.*\| {weight} \|$", text, re.M)


SCORED = ("run_queue", "cpu_idle", "gateway_ping", "requests_per_s", "scan_rate", "idle_workers")


@pytest.mark.parametrize("row", [row for row in rows("scores.md") if len(row) == 7 and row[6].isdigit()], ids=str)
def test_examples_are_right(row: list[str]) -> None:
    metrics = {name: float(cell) for name, cell in zip(SCORED, row, strict=False) if cell != "absent"}
    assert THESIS.of(metrics) == int(row[6])


def test_every_reason_is_explained_in_order() -> None:
    listed = [row[0] for row in rows("collector.md")]
    assert [name for name in listed if name in REASONS] == list(REASONS)

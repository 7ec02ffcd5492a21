"""The pages about the collector say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lbdns.metrics import CATALOGUE
from lbdns.report import REASONS
from lbdns_collector.score import THESIS

DOCS = Path(__file__).parent.parent.parent / "docs"


def rows(page: str) -> list[list[str]]:
    """The cells of every line of every table."""
    lines = (DOCS / page).read_text().splitlines()
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_every_metric_is_listed_with_its_unit() -> None:
    listed = {row[0]: tuple(row[1:]) for row in rows("scores.md") if len(row) == 4 and row[0] in CATALOGUE}
    thesis = {"run_queue", "cpu_idle", "gateway_ping", "requests_per_s", "scan_rate", "idle_workers"}
    assert listed == {n: (m.unit, m.meaning, m.better or "-") for n, m in CATALOGUE.items()}
    assert set(THESIS.terms) == thesis


def test_every_weight_is_listed() -> None:
    text = (DOCS / "scores.md").read_text()
    for metric, term in THESIS.terms.items():
        assert re.search(
            rf"^\| `{metric}` \| `{term.weight:g} \*.* / {term.limit:g}` \|.*\| {term.weight:g} \|$", text, re.M
        )


SCORED = ("run_queue", "cpu_idle", "gateway_ping", "requests_per_s", "scan_rate", "idle_workers")


@pytest.mark.parametrize("row", [row for row in rows("scores.md") if len(row) == 7 and row[6].isdigit()], ids=str)
def test_examples_are_right(row: list[str]) -> None:
    metrics = {name: float(cell) for name, cell in zip(SCORED, row, strict=False) if cell != "absent"}
    assert THESIS.of(metrics) == int(row[6])


def test_every_reason_is_explained_in_order() -> None:
    listed = [row[0] for row in rows("collector.md")]
    assert [name for name in listed if name in REASONS] == list(REASONS)


@pytest.mark.parametrize("page", ["collector.md", "scores.md", "http.md"])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", (DOCS / page).read_text())
    assert links
    for target, anchor in links:
        text = (DOCS / (target or page)).read_text()
        headings = {
            re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)
        }
        assert not anchor or anchor in headings, (target, anchor)

"""Compares the tables of docs/background/scaling.md with the replays that made them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns_tools.scaler.replay.demand_trace import DemandTrace
from lbdns_tools.scaler.replay.fluid_replay import replay
from lbdns_tools.scaler.replay.replay_output import ROWS
from lbdns_tools.scaler.replay.replay_settings import ReplaySettings, make_policy
from lbdns_tools.scaler.replay.trace_file import read_demand_trace
from lbdns_tools.scaler.replay.trace_generator import generate_trace
from tests.tools.scaler.policies.farm_views import MONDAY

PAGE = Path(__file__).parents[4] / "docs" / "background" / "scaling.md"
SETTINGS = ReplaySettings(maximum=40)


def tables() -> list[dict[str, list[str]]]:
    """Return each table of computed figures as policy -> its column, without thousands separators."""
    found = []
    computed, _, _ = PAGE.read_text().partition("## Measured")
    for text in re.findall(r"(?:^\|.*\|\n)+", computed, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
        names = [cell.strip("`") for cell in rows[0][1:]]
        assert [row[0] for row in rows[2:]] == [name for name, _ in ROWS]
        found.append({name: [row[at].replace(",", "") for row in rows[2:]] for at, name in enumerate(names, 1)})
    return found


def column(trace: DemandTrace, name: str, settings: ReplaySettings) -> list[str]:
    result = replay(trace.shifted(MONDAY), name, make_policy(name, settings, {}), settings)
    return [text(result) for _, text in ROWS]


def test_the_page_has_three_tables() -> None:
    assert [len(table) for table in tables()] == [7, 7, 4]


@pytest.mark.parametrize("name", ["cpu", "fixed", "forecast", "queue", "reactive", "revenue", "target"])
def test_one_day(name: str) -> None:
    assert tables()[0][name] == column(read_demand_trace(Path("one-day")), name, SETTINGS)


def test_fifteen_days() -> None:
    settings = replace(SETTINGS, warm_up=14 * 86_400.0)
    assert tables()[1]["queue"] == column(generate_trace(15, 1), "queue", settings)

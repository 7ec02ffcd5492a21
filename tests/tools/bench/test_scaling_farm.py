"""Tests of the benchmark of a scaled farm: its figures, and short loads with real processes and in the lab."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lbdns_tools.bench import scaling_farm
from lbdns_tools.bench.farm_watch import Removal
from lbdns_tools.scaler.demo.demo_files import ScalerDemoPlan, rates
from tests.tools.lab.lab_machines import needs_a_lab


def check(found: dict[str, Any]) -> None:
    assert (found["failed"], found["removed_with_connections"], found["met"]) == (0, 0, True)
    assert found["requests"] > 100
    assert found["most_servers"] >= 2
    assert found["demand_to_answer_s"] >= found["wanted_to_answer_s"] > 0


def options(provider: str) -> argparse.Namespace:
    return argparse.Namespace(provider=provider, seconds=45.0, highest=30.0)


def test_servers_follow_the_load_and_no_request_fails(tmp_path: Path) -> None:
    check(scaling_farm.measure(options("processes"), tmp_path))


@needs_a_lab
def test_servers_follow_the_load_in_the_lab(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    check(scaling_farm.measure(options("lab"), tmp_path))


def test_the_load_has_the_shape_of_2014() -> None:
    plan = ScalerDemoPlan(lowest=4.0, highest=50.0)
    found = rates(plan)
    assert max(found) == found[7] == 50.0
    assert min(found) > 4.0
    assert plan.maximum == 8


@dataclass
class Watched:
    """What a watch has seen."""

    removals: list[Removal] = field(default_factory=list)
    most: int = 3
    wanted_at: float | None = 1027.0
    named_at: float | None = 1034.5


def figures(watch: Watched, failed: int = 0) -> dict[str, Any]:
    run = {"requests": 900, "failed": failed, "mean_s": 0.25, "begun": 1000.0, "errors": {"5xx": failed, "dns": 0}}
    load = {"points": [{"runs": [run]}]}
    farm = SimpleNamespace(plan=ScalerDemoPlan(seconds=170.0))  # each of 15 rates lasts 10 s
    return scaling_farm.results(load, watch, farm)  # type: ignore[arg-type]


def test_the_figures() -> None:
    found = figures(Watched([Removal("web-2", 5, 0), Removal("web-3", 2, 0)]))
    assert found == {
        "requests": 900, "failed": 0, "mean_response_ms": 250.0, "most_servers": 3, "removed": 2,
        "most_connections_while_draining": 5, "removed_with_connections": 0, "demand_to_answer_s": 14.5,
        "wanted_to_answer_s": 7.5, "met": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("watch", "failed"),
    [(Watched([Removal("web-2", 5, 1)]), 0), (Watched(), 1), (Watched(most=1, wanted_at=None, named_at=None), 0)],
)
def test_what_misses_the_target(watch: Watched, failed: int) -> None:
    found = figures(watch, failed)
    assert not found["met"]
    assert found.get("errors", {}) == ({"5xx": failed} if failed else {})
    assert found["removed_with_connections"] == sum(bool(removal.last) for removal in watch.removals)
    assert ("demand_to_answer_s" in found) == (watch.named_at is not None)

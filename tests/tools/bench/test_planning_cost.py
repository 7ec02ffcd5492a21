"""Tests of the planning benchmark with small pools."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from lbdns_tools.bench import planning_cost
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.bench.planning_cost import measure, measure_case, tables


def options(members: list[int]) -> argparse.Namespace:
    return argparse.Namespace(members=members, fresh=0.5, rounds=2)


def test_each_size_is_measured_with_and_without_the_extension(tmp_path: Path) -> None:
    results = measure(options([4, 6]), tmp_path)
    assert list(results["cases"]) == [f"{size} members, {plane}" for size in (4, 6) for plane in ("native", "python")]
    assert all(case["plan_ms"] > 0 for case in results["cases"].values())
    assert "met" not in results, "the targets are for 10,000 members"
    (table,) = tables(results)
    assert table.row_count == 4


@pytest.mark.parametrize(
    ("native", "python", "turns", "met"),
    [
        (9.0, 90.0, (1.9, 1.9), True),
        (11.0, 90.0, (1.9, 1.9), False),
        (9.0, 101.0, (1.9, 1.9), False),
        (9.0, 90.0, (1.9, 2.1), False),
        (9.0, 90.0, (2.1, 1.9), False),
    ],
)
def test_the_target_is_a_plan_of_10000_members(
    native: float, python: float, turns: tuple[float, float], met: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def measured(plane: str, *_: Any) -> dict[str, float]:
        plan, turn = (native, turns[0]) if plane == "native" else (python, turns[1])
        return {"plan_ms": plan, "longest_turn_ms": turn}

    monkeypatch.setattr(planning_cost, "measure_case", measured)
    assert measure(options([10_000]), tmp_path)["met"] is met


def test_an_error_names_the_case(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"3 members, python: .*No such file or directory"):
        measure_case("python", 3, 0.5, 1, tmp_path / "missing")

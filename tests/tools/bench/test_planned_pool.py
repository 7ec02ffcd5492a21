"""Tests of the pool that the planning benchmark plans."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lbdns_tools.bench.planned_pool import ROUND, CpuTimeLoop, PlannedPool, main, make_farm


def test_the_loop_skips_pauses_and_runs_callbacks_in_order_of_their_times() -> None:
    loop, seen = CpuTimeLoop(), list[str]()
    began = time.monotonic()
    loop.call_later(3600.0, seen.append, "late")
    loop.call_soon(seen.append, "first")
    loop.call_later(1800.0, seen.append, "never").cancel()
    loop.run_until(lambda: "late" in seen)
    assert seen == ["first", "late"]
    assert len(loop.turns) == 2
    assert time.monotonic() - began < 60


def test_the_clock_of_the_loop_counts_cpu_time_only() -> None:
    loop = CpuTimeLoop()
    before = loop.time()
    time.sleep(0.05)
    assert loop.time() - before < 0.05
    loop.advance(5.0)
    assert 5.0 <= loop.time() - before < 5.05


def test_every_member_gets_a_share_after_it_has_reported(tmp_path: Path) -> None:
    pool = PlannedPool(make_farm(tmp_path, 8, "python"), ROUND)
    for number in range(3):
        pool.loop.advance(ROUND)
        turns = pool.plan(pool.report(0, 8))
        assert min(turns) > 0, f"round {number}"
    assert not any(pool.planner.failing_open.values())
    assert pool.planner.capacities("web")[1], "capacities are observed"
    plan = pool.cursor.plan
    assert len(plan.weights) == 8
    assert sum(plan.weights) == pytest.approx(1)


def test_members_that_do_not_report_stay_usable(tmp_path: Path) -> None:
    pool = PlannedPool(make_farm(tmp_path, 10, "python"), 10 * ROUND)
    pool.plan(pool.report(0, 10))
    for number in range(12):
        pool.loop.advance(ROUND)
        pool.plan(pool.report(number, 1))
    assert len(pool.cursor.usable) == 10  # type: ignore[arg-type]  # a frozenset


def test_the_figures_are_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["python", "5", "0.4", "3", str(tmp_path)])
    figures = json.loads(capsys.readouterr().out)
    assert 0 < figures["longest_turn_ms"] <= figures["plan_ms"]
    assert figures["longest_turn_ms"] <= figures["worst_turn_ms"]
    assert figures["turns"] >= 1

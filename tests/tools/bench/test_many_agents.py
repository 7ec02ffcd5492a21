"""Checks the benchmark of many agents: its figures, and short runs over UDP and over a bus."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from lbdns_tools.bench import many_agents
from lbdns_tools.bench.benchmark_command import machine
from lbdns_tools.bench.collector_counts import ReportCounts
from lbdns_tools.bench.many_agents import (
    FarmSample,
    busiest,
    chosen_cases,
    cost_ratios,
    figures_between,
    measure,
    memory_per_member,
    tables,
)
from lbdns_tools.bench.many_agents_farm import ScaleCase
from tests.needs import needs


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    many_agents.add_options(parser)
    return parser.parse_args(arguments)


def test_all_sizes_are_measured_over_both_transports() -> None:
    cases = list(chosen_cases(options("--agents", "10", "20", "--collectors", "1", "3", "--bus")))
    assert len(cases) == 8
    assert cases[0] == ScaleCase(10, 1, 1, False)
    assert cases[-1] == ScaleCase(20, 3, 1, True)
    assert len({case.label for case in cases}) == 8
    assert not any(case.by_bus for case in chosen_cases(options()))


@pytest.mark.parametrize(
    ("percent", "name"),
    [
        ({"collector 1": 80.0, "server 1": 30.0, "machine": 150.0, "senders": 99.0}, "collector 1 (80 %)"),
        ({"collector 1": 80.0, "server 1": 30.0, "machine": 190.0, "senders": 99.0}, "machine (95 %)"),
        ({"collector 1": 50.0, "nats-server": 90.0, "machine": 80.0}, "collector 1 (50 %)"),
    ],
)
def test_the_busiest_part_is_the_one_closest_to_its_limit(percent: dict[str, float], name: str) -> None:
    assert busiest(percent, 2) == name


def test_the_cost_is_that_of_the_collectors() -> None:
    before = FarmSample(
        10.0, {"collector 1": 1.0, "collector 2": 2.0, "server 1": 9.0, "machine": 20.0},
        ReportCounts(100, {}, 3), 100, 1000, 5000,
    )  # fmt: skip
    after = FarmSample(
        20.0, {"collector 1": 2.0, "collector 2": 4.0, "server 1": 19.0, "machine": 32.0},
        ReportCounts(2100, {}, 3), 1100, 501_000, 1_005_000,
    )  # fmt: skip
    found = figures_between(before, after, ScaleCase(100, 2, 1, True), 0, 2000)
    assert found["cpu_us_per_report"] == 1500.0  # 3 s for 2,000 reports
    assert (found["reports_per_s"], found["report_bytes_per_s"]) == (100, 50_000)
    assert found["loopback_bytes_per_s"] == 100_000
    assert found["cpu_percent"] == {"collector 1": 10.0, "collector 2": 20.0, "server 1": 100.0, "machine": 120.0}
    assert "cpu_us_per_report" not in figures_between(before, after, ScaleCase(100, 2, 1, True), 21, 2000)


def case_of(agents: int, bus: bool, cost: float, memory: float) -> dict[str, Any]:
    return {
        "agents": agents, "bus": bus, "cpu_us_per_report": cost,
        "memory_mb": {"collector 1": memory, "collector 2": memory + 2, "server 1": 10.0 + 2 * memory, "senders": 1.0},
    }  # fmt: skip


def test_memory_per_member_is_the_growth_between_two_sizes() -> None:
    cases = {
        ScaleCase(1000, 2, 1, False).label: case_of(1000, False, 20.0, 50.0),
        ScaleCase(3000, 2, 1, False).label: case_of(3000, False, 20.0, 54.0),
        ScaleCase(1000, 2, 1, True).label: case_of(1000, True, 24.0, 90.0),
    }
    assert memory_per_member(cases) == {"2 collectors, UDP": {"collector": 2.0, "server": 4.0}}


def test_the_cost_over_the_bus_is_compared_with_udp() -> None:
    cases = {case.label: case_of(case.agents, case.by_bus, 20.0 + 5 * case.by_bus, 1.0) for case in (
        ScaleCase(10, 1, 1, False), ScaleCase(10, 1, 1, True), ScaleCase(20, 1, 1, False),
    )}  # fmt: skip
    assert cost_ratios(cases) == {"10 agents, 1 collector": 1.25}
    del cases["10 agents, 1 collector, bus"]["cpu_us_per_report"]
    assert cost_ratios(cases) == {}


def check(results: dict[str, Any], case: ScaleCase) -> None:
    found = results["cases"][case.label]
    assert found["reports_per_s"] > 0
    assert found["report_bytes_per_s"] > 100 * found["reports_per_s"]
    assert found["answers"]["lost"] < 20  # at least one report has changed an answer
    assert found["lost"] >= 0
    parts = {f"collector {number + 1}" for number in range(case.collectors)} | {"server 1"}
    assert parts <= set(found["cpu_percent"])
    assert all(found["memory_mb"][part] > 10 for part in parts)
    assert ("cpu_us_per_report" in found) == (found["lost_percent"] <= 1)
    assert list(tables(machine() | results))


def test_a_farm_that_follows_one_collector(tmp_path: Path) -> None:
    check(
        measure(options("--agents", "30", "--collectors", "1", "--seconds", "2"), tmp_path), ScaleCase(30, 1, 1, False)
    )


@needs(programs=("nats-server",))
def test_a_farm_with_a_bus(tmp_path: Path) -> None:
    results = measure(options("--agents", "30", "--collectors", "2", "--seconds", "2", "--bus"), tmp_path)
    for by_bus in (False, True):
        check(results, dataclasses.replace(ScaleCase(30, 2, 1, False), by_bus=by_bus))

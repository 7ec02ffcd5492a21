"""Checks the benchmark of the memory per member: how it is divided into parts, and a short run."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from lbdns_tools.bench import member_memory
from lbdns_tools.bench.benchmark_command import machine
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.bench.member_memory import PARTS, measure, memory_by_part, tables


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    member_memory.add_options(parser)
    return parser.parse_args(arguments)


def test_the_parts_are_the_growth_of_each_phase() -> None:
    few = {False: (50_000_000, 51_000_000), True: (50_000_000, 52_000_000)}
    many = {False: (51_900_000, 56_000_000), True: (52_000_000, 60_000_000)}
    found = memory_by_part(few, many, 1000)
    # At the start, both farms with a history differ by 2 MB. Without one, the reports add 5 - 1.9 MB. In total: 8 MB
    assert found == {"configuration": 2.0, "reports": 3.1, "history": 2.9, "total": 8.0}
    assert tuple(found) == PARTS
    assert sum(found[part] for part in PARTS[:-1]) == pytest.approx(found["total"])


def test_two_sizes_are_needed(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="two different numbers"):
        measure(options("--agents", "7"), tmp_path)


def test_a_short_run(tmp_path: Path) -> None:
    results = measure(options("--agents", "40", "5", "--seconds", "1"), tmp_path)
    assert results["agents"] == [5, 40]
    assert set(results["kb_per_member"]) == {"collector", "server"}
    assert all(memory > 20 for memory in results["memory_mb"].values())
    assert results["met"] == all(parts["total"] <= 4 for parts in results["kb_per_member"].values())
    assert list(tables(machine() | results))

"""Tests of the judgement on the virtual machine's measurements: what agrees passes, and each disagreement fails."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from lbdns_machines.control_group_checks import CHECKS
from lbdns_machines.machine import MachineError

MIB = 2**20


def observation(
    metrics: Mapping[str, float], cpu_max: str = "max 100000", memory_max: str = "max", used: int = 100
) -> dict[str, Any]:
    """Return an observation of a group that uses ``used`` MiB, 20 of which are the file cache."""
    before = {
        "cpu.max": f"{cpu_max}\n",
        "cpu.stat": "usage_usec 2000000\nthrottled_usec 100\n",
        "memory.max": f"{memory_max}\n",
        "memory.current": f"{used * MIB}\n",
        "memory.stat": f"inactive_file {20 * MIB}\nactive_file 0\nslab_reclaimable 0\npgscan 100\n",
    }
    after = before | {
        "cpu.stat": "usage_usec 3000000\nthrottled_usec 900\n",
        "memory.stat": before["memory.stat"].replace("pgscan 100", "pgscan 700"),
    }
    return {"agent": {"metrics": dict(metrics)}, "before": before, "after": after}


GOOD: dict[str, Any] = {
    "kernel": "6.1",
    "cores": 2,
    "file_systems": ["cgroup2"],
    "observations": {
        "outside": observation({"cpu_count": 2.0}),
        "inside": observation({"cpu_count": 0.5, "mem_available": 58.0}, "50000 100000", str(200 * MIB)),
        "below": observation({"cpu_count": 0.3, "mem_available": 70.0}),
        "burner": observation(
            {"cpu_count": 0.4, "mem_available": 46.0, "cpu_idle": 3.0, "cpu_steal": 60.0, "run_queue": 2.0},
            "40000 100000", str(150 * MIB),
        ),
        "reader": observation({"scan_rate": 500.0}),
        "web server": observation({"httpd_cpu_seconds": 2.5}),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_what_agrees_passes(name: str) -> None:
    assert CHECKS[name](GOOD)


@pytest.mark.parametrize(
    ("name", "of", "metric", "value", "error"),
    [
        ("outside of limited groups", "outside", "cpu_count", 0.5, "not the host's"),
        ("inside a limited service", "inside", "cpu_count", 2.0, "cpu_count is 2.0, not 0.5"),
        ("inside a limited service", "inside", "mem_available", 90.0, "mem_available is 90.0, not from 0.0 to 65.0"),
        ("below a limited slice", "below", "cpu_count", 2.0, "cpu_count is 2.0, not 0.3"),
        ("a service that uses its whole quota", "burner", "mem_available", 30.0, "mem_available is 30.0"),
        ("a service that uses its whole quota", "burner", "cpu_idle", 80.0, "cpu_idle is 80.0"),
        ("a service that uses its whole quota", "burner", "cpu_steal", 0.0, "cpu_steal is 0.0"),
        ("a service that uses its whole quota", "burner", "run_queue", 3.0, "run_queue is 3.0, not 2"),
        ("a service that reads more than its memory limit", "reader", "scan_rate", 0.0, "scan_rate is 0.0"),
        ("the CPU time of a web server's service", "web server", "httpd_cpu_seconds", 9.0, "9.0, not from 2.0 to 3.0"),
        ("the CPU time of a web server's service", "web server", "httpd_cpu_seconds", 0.5, "0.5, not from 2.0 to 3.0"),
    ],
)
def test_a_metric_that_disagrees(name: str, of: str, metric: str, value: float, error: str) -> None:
    measured = copy.deepcopy(GOOD)
    measured["observations"][of]["agent"]["metrics"][metric] = value
    with pytest.raises(MachineError, match=error):
        CHECKS[name](measured)


@pytest.mark.parametrize(
    ("name", "of", "file", "text", "error"),
    [
        ("inside a limited service", "inside", "cpu.max", "max 100000", "systemd has not applied the limit"),
        ("below a limited slice", "below", "cpu.max", "30000 100000", "a quota of its own: 30000"),
        ("a service that uses its whole quota", "burner", "cpu.stat", "usage_usec 1\nthrottled_usec 100\n", "throttle"),
        ("a service that reads more than its memory limit", "reader", "memory.stat", "pgscan 100\n", "not scanned"),
    ],
)
def test_a_limit_without_effect(name: str, of: str, file: str, text: str, error: str) -> None:
    measured = copy.deepcopy(GOOD)
    measured["observations"][of]["after"][file] = text
    with pytest.raises(MachineError, match=error):
        CHECKS[name](measured)


def test_a_group_without_the_controller_has_no_quota_of_its_own() -> None:
    measured = copy.deepcopy(GOOD)
    del measured["observations"]["below"]["after"]["cpu.max"]
    assert CHECKS["below a limited slice"](measured).startswith("cpu_count 0.3")


def test_a_host_with_version_1() -> None:
    with pytest.raises(MachineError, match=r"has \['tmpfs', 'cgroup'\]"):
        CHECKS["the system has control groups of version 2 alone"](GOOD | {"file_systems": ["tmpfs", "cgroup"]})

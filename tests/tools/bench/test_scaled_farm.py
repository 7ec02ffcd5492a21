"""Tests of the farm of the benchmark ``scaling``: its connections, its load and who may run it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lbdns.demo.child_processes import ChildProcesses
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.bench import scaled_farm
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.bench.scaled_farm import LONG_SECONDS, ScaledFarm
from lbdns_tools.load.phases_file import read_phases
from lbdns_tools.scaler.demo.demo_files import ScalerDemoPlan, write_load


def farm_at(port: int, at_server: Callable[[str, Callable[[], Any]], Any], folder: Path) -> ScaledFarm:
    plan = ScalerDemoPlan(web_port=port, scaler_port=8055)
    return ScaledFarm(plan, folder, ChildProcesses(), Endpoint("127.0.0.1", 53), "127.0.0.1", (), at_server=at_server)


def test_connections_of_a_server_that_runs_and_of_one_that_is_gone(tmp_path: Path) -> None:
    asked: list[str] = []

    def at_server(name: str, work: Callable[[], Any]) -> Any:
        asked.append(name)
        if name == "web-2":
            raise FileNotFoundError("the namespace is gone")
        return work()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        farm = farm_at(port, at_server, tmp_path)
        assert farm.connections("web-1", "127.0.0.1") == 0
        with socket.create_connection(("127.0.0.1", port)):
            assert farm.connections("web-1", "127.0.0.1") == 1
    assert farm.connections("web-2", "127.0.0.1") is None
    assert asked == ["web-1", "web-1", "web-2"]
    assert farm.scaler.base == "http://127.0.0.1:8055"


def test_the_load_can_be_read_and_ends_with_requests_that_take_long(tmp_path: Path) -> None:
    plan = ScalerDemoPlan(web_port=8081, seconds=150.0)
    write_load(plan, tmp_path)
    command = scaled_farm._load_command(plan, tmp_path, "/work?ms=5", "/sleep", "127.0.0.2")
    phases = read_phases(Path(command[command.index("--phases") + 1]))
    assert [phase.begin_s for phase in phases] == [0.0, 0.0]
    targets = [(target.port, target.path) for phase in phases for target in phase.mix.targets]
    assert targets == [(8081, "/work?ms=5"), (8081, f"/sleep?s={LONG_SECONDS}")]


def test_only_root_can_use_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with (
        pytest.raises(BenchmarkError, match=r"--provider lab: .*root"),
        scaled_farm.lab_scaled_farm(30.0, 45.0, tmp_path),
    ):
        pass


def test_long_requests_outlast_the_quiet_time() -> None:
    """Otherwise, a server that is drained would have no connection when the scaler could stop it."""
    assert LONG_SECONDS > 3

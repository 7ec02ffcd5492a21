"""Checks a short run of the agent benchmark: memory use must be within the target."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import pytest

from lbdns_tools import installed_programs
from lbdns_tools.bench import agent_cost
from lbdns_tools.bench.agent_cost import cost_of, cpu_seconds
from tests.agent.web import ForkingServer
from tests.end_to_end.process import eventually


def test_processor_time_of_this_process() -> None:
    before, start = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - start < 0.1:
        pass
    assert cpu_seconds(os.getpid()) - before == pytest.approx(0.1, abs=0.05)


def test_shares_are_of_one_core() -> None:
    with ForkingServer(children=0) as server:
        (idle,) = cost_of([server.pid], 0.2)
    assert idle["cpu_percent"] < 50
    assert 2 < idle["pss_mb"] <= idle["rss_mb"] < 100


def test_an_agent_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installed_programs, "is_there", lambda name: False)
    monkeypatch.setattr(agent_cost, "WARM_UP", 1.5)

    def is_measured() -> bool:
        """Return whether the agent used more processor time than the floor. A busy machine may stop it for a while."""
        result = agent_cost.measure(argparse.Namespace(seconds=1.0, interval=0.2, mpm="prefork"), tmp_path)
        assert "Apache is not installed" in result["server"]
        assert result["agent"]["cpu_percent"] < 50
        assert result["floor"]["rss_mb"] < result["agent"]["rss_mb"] < result["target"]["rss_mb"]
        return bool(result["floor"]["cpu_percent"] < result["agent"]["cpu_percent"])

    eventually(is_measured, "the agent uses more processor time than the floor", 120)

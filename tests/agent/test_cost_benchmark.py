"""The benchmark of the agent's cost: that it measures, and that the memory is within the target."""

from __future__ import annotations

import json
import os
import time

import pytest

from lbdns_tools import installed
from lbdns_tools.bench import agent_cost
from lbdns_tools.bench.agent_cost import cpu_seconds, main, measure, memory_mb


def test_processor_time_and_memory_of_this_process() -> None:
    before, start = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - start < 0.1:
        pass
    assert cpu_seconds(os.getpid()) - before == pytest.approx(0.1, abs=0.05)
    rss, pss = memory_mb(os.getpid())
    assert 5 < pss <= rss < 1000


def test_shares_are_of_one_core() -> None:
    (idle,) = measure([os.getpid()], 0.2)
    assert idle.cpu_percent < 50


def test_an_agent_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(installed, "is_there", lambda name: False)
    monkeypatch.setattr(agent_cost, "WARM_UP", 1.5)
    assert main(["--seconds", "1", "--interval", "0.2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert "Apache is not installed" in result["server"]
    assert 0 < result["agent"]["cpu_percent"] < 50
    assert result["floor"]["cpu_percent"] < result["agent"]["cpu_percent"]
    assert result["floor"]["rss_mb"] < result["agent"]["rss_mb"] < result["target"]["rss_mb"]


@pytest.mark.parametrize(("met", "flags", "status"), [(True, ["--fail"], 0), (False, ["--fail"], 1), (False, [], 0)])
def test_what_it_shows_and_its_exit_status(
    met: bool,
    flags: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = {"cpu_percent": 0.25, "rss_mb": 21.5, "pss_mb": 12.0}
    result = {
        "server": "Apache", "seconds": 60.0, "interval": 1.0, "agent": figures, "floor": figures,
        "target": {"cpu_percent": 0.5, "rss_mb": 30.0}, "met": met,
    }  # fmt: skip
    monkeypatch.setattr(agent_cost, "run", lambda seconds, interval, mpm: result)
    assert main(flags) == status
    shown = capsys.readouterr().out
    assert "0.250" in shown
    assert ("target met" if met else "target MISSED") in shown

"""Tests of the stand-ins for agents."""

from __future__ import annotations

from random import Random
from socket import AF_INET, SOCK_DGRAM, socket

import pytest

from lbdns_shared.keys import new_master_key
from lbdns_shared.report import open_envelope
from lbdns_tools.faults.query_load import QueryLoad
from lbdns_tools.faults.stand_in_agents import CORES, StandInAgent, StandInAgents


def test_counters_follow_the_answers() -> None:
    agent = StandInAgent("frodo", 0.01, Random(1))
    first = agent.serve(100, 1.0)
    second = agent.serve(50, 1.0)
    assert second["requests_total"] - first["requests_total"] == pytest.approx(50, rel=0.4)
    assert second["httpd_cpu_seconds"] > first["httpd_cpu_seconds"]


def test_more_than_the_cores_can_do_waits() -> None:
    agent = StandInAgent("frodo", 0.1, Random(1))
    metrics = agent.serve(1000, 1.0)
    assert metrics["httpd_cpu_seconds"] == pytest.approx(CORES)
    assert metrics["cpu_idle"] <= 5
    assert agent.serve(0, 1.0)["httpd_cpu_seconds"] == pytest.approx(2 * CORES)


def test_a_lie_replaces_the_metrics_but_not_the_truth() -> None:
    agent = StandInAgent("frodo", 0.01, Random(1))
    agent.lie = lambda metrics, number: ({**metrics, "requests_total": 1e12 + number}, 60.0)
    reports = [agent.report(agent.serve(1, 1.0)) for _ in range(2)]
    assert [report.metrics["requests_total"] for report in reports] == [1e12, 1e12 + 1]
    assert reports[0].interval == 60.0
    agent.lie = None
    honest = agent.report(agent.serve(1, 1.0))
    assert honest.metrics["requests_total"] < 2000
    assert [report.seq for report in (*reports, honest)] == [1, 2, 3]


def test_silent_hosts_send_no_reports() -> None:
    with socket(AF_INET, SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(30)
        port = sock.getsockname()[1]
        load = QueryLoad(port, 1, ["best.hobbit"], ["127.0.0.16"])
        agents = StandInAgents(port, new_master_key(), load, ("bilbo", "frodo", "gandalf"), 0.01, Random(1))
        agents.silent.add("frodo")
        with agents:
            assert [open_envelope(sock.recv(2000)).host for _ in range(4)] == ["bilbo", "gandalf"] * 2

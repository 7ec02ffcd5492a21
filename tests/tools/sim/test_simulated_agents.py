"""Checks that a simulated agent's reports agree with what happened on the simulated server."""

from __future__ import annotations

import pytest

from lbdns_shared.metric_catalogue import CATALOGUE
from lbdns_tools.sim.simulated_agents import SimulatedAgent
from lbdns_tools.sim.simulated_web_server import SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import ServerSpec


def serve(server: SimulatedWebServer, sizes: list[float], begin: float = 0.0) -> None:
    """Serve requests one after another, each as soon as the previous request is complete."""
    now = begin
    for size in sizes:
        assert server.arrive(now, size, (now, -1, 0))
        now = server.next_end
        server.depart(now)


def test_metrics_are_those_of_the_product() -> None:
    server = SimulatedWebServer(ServerSpec("s1", 1.0, 2.0))
    agent = SimulatedAgent(server)
    agent.sample(1.0)
    assert set(agent.sample(2.0)) <= set(CATALOGUE)


def test_what_was_done_between_reports() -> None:
    server = SimulatedWebServer(ServerSpec("s1", 2.0, 2.0))
    agent = SimulatedAgent(server)
    agent.sample(0.0)
    serve(server, [0.2] * 5)  # a tenth of a second each on a core of speed 2
    found = agent.sample(1.0)
    assert found["requests_per_s"] == 6.0, "five, and its own question"
    assert found["httpd_cpu_seconds"] == pytest.approx(0.5)
    assert found["cpu_idle"] == pytest.approx(75.0)
    assert found["busy_workers"] == 1.0
    assert found["run_queue"] == 0.0
    assert agent.sample(2.0)["requests_per_s"] == 1.0
    assert agent.sample(3.0)["cpu_idle"] == 100.0


def test_what_is_there_now() -> None:
    server = SimulatedWebServer(ServerSpec("s1", 1.0, 1.0, workers=4, backlog=10))
    agent = SimulatedAgent(server)
    for _ in range(6):
        assert server.arrive(0.5, 10.0, (0.5, -1, 0))
    found = agent.sample(1.0)
    assert found["busy_workers"] == 4.0
    assert found["idle_workers"] == 0.0
    assert found["run_queue"] == 4.0
    assert found["listen_queue"] == 2.0


def test_other_work_shows_in_the_machine_and_not_in_the_web_server() -> None:
    server = SimulatedWebServer(ServerSpec("s1", 1.0, 2.0, background=1.0))
    agent = SimulatedAgent(server)
    agent.sample(0.0)
    found = agent.sample(1.0)
    assert found["run_queue"] == 1.0
    assert found["cpu_idle"] == pytest.approx(50.0)
    assert found["httpd_cpu_seconds"] == 0.0


def test_a_dead_web_server_looks_idle_and_says_nothing() -> None:
    server = SimulatedWebServer(ServerSpec("s1"))
    agent = SimulatedAgent(server)
    agent.sample(0.0)
    server.fail(0.5)
    found = agent.sample(1.0)
    assert found["cpu_idle"] == 100.0
    assert not {"requests_total", "requests_per_s", "busy_workers", "httpd_cpu_seconds", "listen_queue"} & set(found)
    server.recover(2.0)
    assert "requests_total" in agent.sample(3.0)


def test_without_its_status_page_a_web_server_still_has_cpu_time_and_connections() -> None:
    server = SimulatedWebServer(ServerSpec("s1", workers=1))
    agent = SimulatedAgent(server)
    agent.reads_status = False
    for _ in range(3):
        assert server.arrive(0.0, 10.0, (0.0, -1, 0))
    found = agent.sample(1.0)
    assert found["httpd_cpu_seconds"] == pytest.approx(1.0)
    assert found["listen_queue"] == 2.0
    assert not {"requests_total", "requests_per_s", "busy_workers"} & set(found)


def crowded(waiting: int) -> SimulatedWebServer:
    server = SimulatedWebServer(ServerSpec("s1", workers=10))
    for _ in range(10 + waiting):
        server.arrive(0.0, 1.0, (0.0, -1, 0))
    return server


def test_an_overload_is_told_at_once_and_until_a_report_says_otherwise() -> None:
    server = crowded(0)
    agent = SimulatedAgent(server, ("listen_queue > 5",))
    assert agent.check_alarm() is None, "nothing was reported yet"
    agent.sample(0.0)
    assert agent.alarm == ""
    assert agent.check_alarm() is None
    for _ in range(6):
        server.arrive(0.5, 1.0, (0.5, -1, 0))
    metrics = agent.check_alarm()
    assert metrics is not None
    assert metrics["listen_queue"] == 6.0
    assert agent.alarm == "listen_queue 6 > 5"
    assert agent.check_alarm() is None, "it has been told"
    agent.sample(1.0)
    assert agent.alarm == "listen_queue 6 > 5"
    while server.waiting:
        server.depart(server.next_end)
    assert agent.alarm == "listen_queue 6 > 5", "only a report ends it"
    agent.sample(9.0)
    assert agent.alarm == ""


def test_without_conditions_there_is_no_alarm() -> None:
    agent = SimulatedAgent(crowded(500))
    agent.sample(0.0)
    assert agent.check_alarm() is None
    assert agent.alarm == ""

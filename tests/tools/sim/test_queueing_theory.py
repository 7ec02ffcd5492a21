"""Compares simulation results, with fixed seeds, with the exact results of queueing theory."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.simulated_requests import WORKLOADS
from lbdns_tools.sim.simulation_results import SimulationResult
from lbdns_tools.sim.simulation_scenario import FARMS, Scenario, ServerSpec, SimulatedClients

CLOSE = 0.05  # of 30,000 requests and more at these loads


def single(cores: float, workload: str, load: float, seconds: float, speed: float = 1.0) -> SimulationResult:
    server = ServerSpec("s1", speed, cores)
    return simulate(Scenario((server,), workload, load, warm_up=20.0, duration=seconds), "round_robin", 1)


@pytest.mark.parametrize(("load", "seconds"), [(0.3, 1000), (0.5, 800), (0.7, 800)])
def test_mean_response_of_m_m_1_with_processor_sharing(load: float, seconds: float) -> None:
    result = single(1, "html", load, seconds)
    assert result.mean_ms == pytest.approx(10 / (1 - load), rel=CLOSE)
    assert result.failed == 0


def test_a_server_twice_as_fast_takes_half_the_time() -> None:
    assert single(1, "html", 0.5, 400, speed=2.0).mean_ms == pytest.approx(10 / 2 / (1 - 0.5), rel=CLOSE)


def test_processor_sharing_is_insensitive_to_the_distribution_of_sizes() -> None:
    """Check M/G/1-PS: mean response time depends only on mean request size. FIFO would make it 3.7 times as long."""
    result = single(1, "mix", 0.5, 2000)
    assert result.mean_ms == pytest.approx(1000 * WORKLOADS["mix"].mean / (1 - 0.5), rel=CLOSE)


@pytest.mark.parametrize("cores", [2, 4])
def test_mean_response_of_m_m_c(cores: int) -> None:
    load, service = 0.7, 10.0  # ms
    offered = cores * load
    waiting = offered**cores / math.factorial(cores) / (1 - load)
    probability = waiting / (sum(offered**n / math.factorial(n) for n in range(cores)) + waiting)  # Erlang C
    expected = service + probability * service / (cores - offered)
    assert single(cores, "html", load, 250).mean_ms == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("policy", ["best"])
def test_littles_law(policy: str) -> None:
    """Check that the mean number of requests in the system is the arrival rate times the mean response time."""
    scenario = Scenario(FARMS["T3"], "html", 0.7, duration=400.0)
    result = simulate(scenario, policy, 1)
    seen = [sum(m.load) for m in result.moments if scenario.warm_up <= m.time < scenario.end]
    arrivals = result.requests / scenario.duration
    assert sum(seen) / len(seen) == pytest.approx(arrivals * result.mean_ms / 1000, rel=0.1)


def test_littles_law_of_clients_that_wait_for_responses() -> None:
    """Check Little's law with clients that never pause: clients = throughput * response time."""
    scenario = Scenario(FARMS["T3"], "html", clients=SimulatedClients("closed", 20), duration=60.0)
    result = simulate(scenario, "round_robin", 1)
    assert result.throughput_per_s * result.mean_ms / 1000 == pytest.approx(20, rel=0.02)


def test_everything_is_done_that_can_be_done() -> None:
    """Check that the throughput of servers that are never idle is the sum of their capacities."""
    scenario = Scenario(FARMS["T3"], "html", clients=SimulatedClients("closed", 200), duration=60.0)
    carried = sum(server.capacity for server in scenario.servers) / WORKLOADS["html"].mean
    assert simulate(scenario, "round_robin", 1).throughput_per_s == pytest.approx(carried, rel=0.03)


@pytest.mark.parametrize("load", [1.5, 3.0])
def test_more_than_can_be_carried_fails(load: float) -> None:
    """Check that requests are refused immediately when all workers are busy and the backlog is full."""
    server = ServerSpec("s1", 1.0, 1.0, workers=50, backlog=20)
    result = simulate(Scenario((server,), "html", load, duration=60.0), "round_robin", 1)
    assert result.throughput_per_s == pytest.approx(100, rel=0.05)
    assert result.failed / result.requests == pytest.approx(1 - 1 / load, abs=0.03)


def test_other_work_takes_its_part() -> None:
    """Check processor sharing with a permanent background task, which doubles every response time."""
    server = ServerSpec("s1", 1.0, 1.0, background=1.0)
    alone = simulate(Scenario((replace(server, background=0.0),), "html", 0.4, duration=600.0), "round_robin", 1)
    beside = simulate(Scenario((server,), "html", 0.4, duration=600.0), "round_robin", 1)
    assert alone.mean_ms == pytest.approx(10 / 0.6, rel=CLOSE)
    assert beside.mean_ms == pytest.approx(2 * 10 / 0.6, rel=CLOSE)

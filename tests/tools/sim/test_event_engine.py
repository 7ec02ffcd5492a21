"""Tests of what simulations guarantee under every policy: randomness, failures, flash crowds, and lost reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lbdns.policies import POLICIES
from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.simulated_dns import ORACLE
from lbdns_tools.sim.simulation_results import SimulationResult
from lbdns_tools.sim.simulation_scenario import (
    FARMS,
    OtherWork,
    Outage,
    Scenario,
    ServerSpec,
    SimulatedClients,
    Slowdown,
    Surge,
)

SHORT = Scenario(FARMS["T3"], "mix", 0.6, warm_up=10.0, duration=40.0)


def answers(result: SimulationResult, begin: float, end: float) -> list[int]:
    """Return the number of answers that name each server between two times, excluding the first second."""
    found = [moment.answers for moment in result.moments if begin + 1 < moment.time <= end]
    return [sum(column) for column in zip(*found, strict=True)]


@pytest.mark.parametrize("policy", [*POLICIES, ORACLE])
def test_a_seed_is_a_run(policy: str) -> None:
    scenario = replace(SHORT, loss=0.1, dns_servers=2)
    assert simulate(scenario, policy, 3) == simulate(scenario, policy, 3)
    assert simulate(scenario, policy, 3) != simulate(scenario, policy, 4)


def test_policies_are_compared_on_the_same_requests() -> None:
    """Check that all policies handle the same number of requests, and have equal results with a single server."""
    counts = {simulate(SHORT, policy, 5).requests for policy in (*POLICIES, ORACLE)}
    assert len(counts) == 1
    alone = replace(SHORT, servers=SHORT.servers[:1])
    figures = {
        (r.mean_ms, r.p99_ms, r.requests) for r in (simulate(alone, policy, 5) for policy in (*POLICIES, ORACLE))
    }
    assert len(figures) == 1


def test_shares_and_requests_add_up() -> None:
    result = simulate(SHORT, "best", 1)
    assert sum(result.shares.values()) == pytest.approx(1)
    assert result.p50_ms <= result.p95_ms <= result.p99_ms <= 10_000
    assert result.throughput_per_s * SHORT.duration == pytest.approx(result.requests - result.failed)


def test_nobody_beats_the_oracle_by_far() -> None:
    best, oracle = simulate(SHORT, "best", 1), simulate(SHORT, ORACLE, 1)
    assert oracle.mean_ms <= best.mean_ms


@pytest.mark.parametrize("policy", ["best", "weighted", "round_robin"])
def test_a_dead_server_gets_nothing_once_it_is_silent_and_comes_back(policy: str) -> None:
    scenario = replace(SHORT, servers=FARMS["U10"], load=0.5, outages=(Outage("s3", 20.0, 35.0),))
    result = simulate(scenario, policy, 1)
    assert answers(result, 10, 20)[2] > 0
    silent = 20 + scenario.stale_after * scenario.interval
    assert answers(result, silent, 35)[2] == 0
    assert answers(result, 37, 50)[2] > 0
    assert result.late_answers == 0
    assert 0 < result.failed < 0.05 * result.requests


@pytest.mark.parametrize("policy", ["best", "round_robin"])
def test_a_check_takes_a_dead_server_out_sooner_and_nobody_else(policy: str) -> None:
    scenario = replace(SHORT, servers=FARMS["U10"], load=0.5, outages=(Outage("s3", 20.0, 35.0),))
    unchecked, checked = simulate(scenario, policy, 1), simulate(replace(scenario, check=True), policy, 1)
    assert 0 < checked.failed < unchecked.failed
    # Overdue at most 1.3 intervals after its death, and 0.3 s for the check; answers are counted in whole seconds
    assert answers(checked, 22, 35)[2] == 0
    assert answers(checked, 37, 50)[2] > 0
    assert simulate(replace(SHORT, check=True), policy, 1) == simulate(SHORT, policy, 1)


def test_requests_to_a_dead_server_fail() -> None:
    scenario = replace(SHORT, servers=FARMS["T3"][:1], outages=(Outage("s1", 20.0, 30.0),))
    result = simulate(scenario, "round_robin", 1)
    arrivals = result.requests / SHORT.duration
    assert result.failed == pytest.approx(10 * arrivals, rel=0.25)


def test_a_surge_brings_that_many_more() -> None:
    usual = simulate(SHORT, "best", 1)
    crowd = simulate(replace(SHORT, surges=(Surge(20.0, 40.0, 3.0),)), "best", 1)
    assert crowd.requests / usual.requests == pytest.approx((20 + 20 * 3) / 40, rel=0.1)
    assert sum(answers(crowd, 20, 40)) == pytest.approx(3 * sum(answers(usual, 20, 40)), rel=0.1)


def test_best_keeps_away_from_other_work() -> None:
    scenario = replace(SHORT, duration=60.0, other_work=(OtherWork("s3", 30.0, 60.0, 20.0),))
    usual, beside = simulate(SHORT, "best", 1), simulate(scenario, "best", 1)
    before, during = answers(beside, 10, 30), answers(beside, 33, 60)
    assert during[2] / sum(during) < 0.95 * before[2] / sum(before)
    assert beside.p95_ms > usual.p95_ms


def test_slower_cores_take_longer() -> None:
    scenario = replace(SHORT, servers=(ServerSpec("s1"),), load=0.05, workload="html")
    slow = replace(scenario, slowdowns=(Slowdown("s1", 0.0, SHORT.end, 0.25),))
    usual, slower = simulate(scenario, "best", 1), simulate(slow, "best", 1)
    assert slower.mean_ms / usual.mean_ms == pytest.approx(4 * 0.95 / 0.8, rel=0.15)
    brief = replace(scenario, slowdowns=(Slowdown("s1", 0.0, 0.1, 0.25),))
    assert simulate(brief, "best", 1).mean_ms == pytest.approx(usual.mean_ms, rel=0.01)


def test_a_hidden_status_page_stops_no_web_server() -> None:
    result = simulate(replace(SHORT, load=0.1, outages=(Outage("s3", 0.0, page_only=True),)), "round_robin", 1)
    assert result.failed == 0
    assert min(result.shares.values()) > 0.3


def test_an_alarm_keeps_clients_from_being_turned_away() -> None:
    """Check that an alarm prevents refusals by a slow server to which round robin sends too many requests."""
    servers = (ServerSpec("slow", 0.2, workers=10, backlog=50), ServerSpec("fast", 4.0, workers=10, backlog=50))
    scenario = Scenario(servers, "html", 0.5, warm_up=5.0, duration=20.0, max_speed_gain=20.0)
    without = simulate(scenario, "round_robin", 1)
    told = simulate(replace(scenario, alarms=("listen_queue > 20",)), "round_robin", 1)
    assert without.failed > 0.3 * without.requests
    assert told.failed < 0.1 * without.failed
    assert told.shares["slow"] < 0.25


def test_without_any_report_everybody_is_handed_out_alike() -> None:
    result = simulate(replace(SHORT, loss=1.0, load=0.1), "best", 1)
    assert max(result.shares.values()) - min(result.shares.values()) < 0.01


def test_a_lost_report_now_and_then_changes_little() -> None:
    scenario = replace(SHORT, servers=FARMS["U10"], workload="cgi")
    whole, lossy = simulate(scenario, "best", 1), simulate(replace(scenario, loss=0.02), "best", 1)
    assert lossy.p95_ms == pytest.approx(whole.p95_ms, rel=0.15)


def test_caches_ask_less_often_than_clients_come() -> None:
    result = simulate(replace(SHORT, clients=SimulatedClients("caches", 20)), "round_robin", 1)
    assert 0 < result.answers < 0.2 * result.requests


def test_closed_clients_look_up_when_it_is_time() -> None:
    clients = SimulatedClients("closed", 10, resolve=5.0)
    result = simulate(replace(SHORT, clients=clients), "round_robin", 1)
    assert result.answers == pytest.approx(10 * SHORT.end / 5, rel=0.3)


def test_clients_of_1999_look_up_at_their_own_intervals() -> None:
    clients = SimulatedClients("closed", 10, resolve=10.0, as_1999=True)
    scenario = replace(SHORT, clients=clients, warm_up=0.0, duration=9.0)
    first = simulate(replace(scenario, duration=4.5), "best", 1)
    assert first.answers == 0, "the first lookups go to the rotation"
    assert simulate(scenario, "best", 1).answers < 10
    # Half of the clients have an interval of 5 s, and the others have intervals up to 10 s, after a client's first
    long = simulate(replace(scenario, duration=200.0), "best", 1)
    assert 10 * 200 / 10 - 10 <= long.answers <= 10 * 200 / 5


def test_closed_clients_may_look_up_before_every_request() -> None:
    clients = SimulatedClients("closed", 10, resolve=0.0)
    result = simulate(replace(SHORT, clients=clients, warm_up=0.0), "round_robin", 1)
    assert result.answers == result.requests > 1000


def test_recorded_arrivals_are_taken_as_they_are() -> None:
    times = tuple(0.5 * k for k in range(100))
    result = simulate(replace(SHORT, arrivals=times), "round_robin", 1)
    assert result.requests == sum(SHORT.warm_up <= time < SHORT.end for time in times)
    assert result.answers == len(times)

"""Checks the simulated CPU quota: when a host stands still, and what this does to requests and other work."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.sim.cpu_quota import PERIOD, CpuQuota, QuotaWebServer, make_web_server
from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.simulated_agents import SimulatedAgent
from lbdns_tools.sim.simulated_web_server import SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import OtherWork, Scenario, ServerSpec

REQUEST = (0.0, 0, 0)


@pytest.mark.parametrize(
    ("cores", "seconds", "use", "end"),
    [
        (0.4, 0.04, 1.0, 0.04),  # exactly the first period's quota
        (0.4, 0.05, 1.0, 0.11),  # the rest follows after the refill
        (0.4, 0.12, 1.0, 0.24),
        (0.4, 0.04, 2.0, 0.12),  # two cores use the quota up in half of the time
        (2.0, 0.35, 2.0, 0.35),  # a quota that is never used up
    ],
)
def test_work_ends_after_the_standstills(cores: float, seconds: float, use: float, end: float) -> None:
    assert CpuQuota(cores).finish(0.0, seconds, use) == pytest.approx(end)
    assert CpuQuota(cores).advance(0.0, end, use) == pytest.approx(seconds)


def test_a_quota_that_was_not_used_expires() -> None:
    quota = CpuQuota(0.4)
    assert quota.advance(0.0, 10.05, 0.0) == pytest.approx(10.05)
    assert quota.finish(10.05, 0.05, 1.0) == pytest.approx(10.11)  # 40 ms, the standstill of 10 ms, and 10 ms


def test_the_refill_has_a_phase() -> None:
    quota = CpuQuota(0.4, phase=0.03)
    assert quota.finish(0.0, 0.05, 1.0) == pytest.approx(0.05)  # the first period ends after 30 ms
    assert CpuQuota(0.1, phase=0.03).finish(0.0, 0.015, 1.0) == pytest.approx(0.035)


@given(
    st.floats(0.02, 3.0),
    st.floats(0.0, PERIOD),
    st.lists(st.tuples(st.floats(0.0, 0.5), st.sampled_from((0.0, 0.5, 1.0, 2.0))), min_size=1, max_size=20),
)
def test_a_host_never_uses_more_than_its_quota(cores: float, phase: float, spans: list[tuple[float, float]]) -> None:
    quota, now, used = CpuQuota(cores, phase), 0.0, 0.0
    for seconds, use in spans:
        ran = quota.advance(now, now + seconds, use)
        assert -1e-9 <= ran <= seconds + 1e-9
        now += seconds
        used += ran * use
    assert used <= cores * (now + 2 * PERIOD) + 1e-6


@given(st.floats(0.02, 1.5), st.floats(0.0, PERIOD), st.floats(0.001, 1.0), st.sampled_from((0.5, 1.0, 2.0)))
def test_finish_is_the_inverse_of_advance(cores: float, phase: float, seconds: float, use: float) -> None:
    end = CpuQuota(cores, phase).finish(0.0, seconds, use)
    assert CpuQuota(cores, phase).advance(0.0, end, use) == pytest.approx(seconds, abs=1e-6)


def test_requests_wait_while_other_work_eats_the_quota() -> None:
    """Three busy loops on two cores use a quota of 0.4 cores up within 20 ms; for the next 80 ms, nothing runs."""
    server = QuotaWebServer(ServerSpec("s1", 1.0, 2.0, background=3.0, quota=0.4), 0.0)
    assert server.arrive(0.03, 0.01, REQUEST)
    assert server.next_end == pytest.approx(0.12)  # half of a core, from the refill on
    assert server.depart(server.next_end) == REQUEST
    server.advance(1.0)
    assert server.cpu == pytest.approx(0.01)
    assert server.cpu + server.other_cpu == pytest.approx(0.4)


def test_a_request_on_an_idle_host_runs_at_full_speed() -> None:
    server = QuotaWebServer(ServerSpec("s1", 1.0, 2.0, quota=0.1), 0.0)
    server.arrive(5.02, 0.008, REQUEST)
    assert server.next_end == pytest.approx(5.028)
    server.arrive(5.022, 0.008, REQUEST)  # both cores: the quota of 10 ms is used up 4 ms later
    assert server.next_end == pytest.approx(5.102)


def test_other_work_that_begins_and_ends_moves_the_end_of_requests() -> None:
    server = QuotaWebServer(ServerSpec("s1", 1.0, 1.0, quota=0.2), 0.0)
    server.arrive(0.0, 0.018, REQUEST)
    server.set_background(1.0, 0.006)
    assert server.next_end == pytest.approx(0.11)  # 7 of the other 14 ms until the standstill; 5 more at half the speed
    server.set_background(0.0, 0.1)
    assert server.next_end == pytest.approx(0.105)


def test_only_servers_with_a_quota_are_limited() -> None:
    assert type(make_web_server(ServerSpec("s1"))) is SimulatedWebServer
    assert type(make_web_server(ServerSpec("s1", quota=0.5))) is QuotaWebServer


def test_the_agent_reports_the_quota_as_cores() -> None:
    server = QuotaWebServer(ServerSpec("s1", 1.0, 2.0, background=3.0, quota=0.4), 0.0)
    metrics = SimulatedAgent(server).sample(1.0)
    assert (metrics["cpu_count"], metrics["cpu_idle"]) == pytest.approx((0.4, 0.0))


@pytest.mark.parametrize(
    ("cores", "background", "quota", "steal"),
    [
        (2.0, 3.0, 0.4, 80.0),  # runs for 20 ms of each 100 ms
        (1.0, 3.0, 0.4, 60.0),
        (1.0, 0.5, 0.4, 20.0),
        (2.0, 0.0, 0.4, 0.0),
        (1.0, 3.0, 1.0, 0.0),
    ],
)
def test_the_agent_reports_the_share_of_time_in_which_the_host_stands_still(
    cores: float, background: float, quota: float, steal: float
) -> None:
    server = QuotaWebServer(ServerSpec("s1", 1.0, cores, background=background, quota=quota), 0.0)
    agent = SimulatedAgent(server)
    for second in range(1, 4):
        assert agent.sample(float(second))["cpu_steal"] == pytest.approx(steal, abs=1e-6)


def test_an_agent_without_a_quota_reports_no_standstill() -> None:
    assert "cpu_steal" not in SimulatedAgent(SimulatedWebServer(ServerSpec("s1", background=3.0))).sample(1.0)


@pytest.mark.parametrize("load", [0.18, 0.3])
def test_busy_loops_that_use_up_a_quota_do_not_make_best_worse_than_round_robin(load: float) -> None:
    servers = tuple(ServerSpec(f"s{n}", 10.0, 2.0, quota=quota) for n, quota in enumerate((0.11, 0.07, 0.4), 1))
    loops = (OtherWork("s3", 10.0, 60.0, 3.0),)
    scenario = Scenario(
        servers, load=load, workload="html", other_work=loops, warm_up=10.0, duration=50.0, max_speed_gain=4.0
    )
    best, fair = (simulate(scenario, policy, 1).mean_ms for policy in ("best", "round_robin"))
    assert best <= 1.1 * fair


def test_a_quota_that_is_never_used_up_changes_nothing() -> None:
    """A quota of all cores leaves every result as it is."""
    plain = ServerSpec("s1", 1.0, 2.0), ServerSpec("s2", 0.5, 1.0)
    limited = ServerSpec("s1", 1.0, 2.0, quota=2.0), ServerSpec("s2", 0.5, 1.0, quota=1.0)
    results = [simulate(Scenario(servers, load=0.6, duration=30), "best", 1) for servers in (plain, limited)]
    without, with_quota = results
    assert with_quota.requests == without.requests
    assert with_quota.mean_ms == pytest.approx(without.mean_ms, rel=1e-6)
    assert with_quota.shares == pytest.approx(without.shares)


def test_departures_are_in_order_and_use_no_more_than_the_quota() -> None:
    chance, now, ends = Random(3), 0.0, []
    server = QuotaWebServer(ServerSpec("s1", 1.0, 2.0, workers=5, quota=0.3), 0.04)
    for number in range(500):
        now += chance.expovariate(20.0)
        while server.next_end <= now:
            ends.append(server.next_end)
            server.depart(server.next_end)
        server.arrive(now, chance.expovariate(100.0), (now, number, 0))
    assert all(first <= second for first, second in pairwise(ends))
    assert server.cpu <= 0.3 * (now + 2 * PERIOD)


def test_standing_still_takes_the_gain_of_a_choice_among_hosts_with_other_work() -> None:
    """Three busy loops run on the strongest of three hosts, at a load that a rotation carries, as in the lab."""
    slow = tuple(ServerSpec(f"s{n}", speed) for n, speed in enumerate((1.1, 0.7, 4.0)))
    quotas = tuple(ServerSpec(f"s{n}", 10.0, 2.0, quota=quota) for n, quota in enumerate((0.11, 0.07, 0.4)))
    p95 = {}
    for name, servers in {"slow": slow, "quotas": quotas}.items():
        other = (OtherWork("s2", 0.0, 100.0, 3.0),)
        scenario = Scenario(servers, "html", 0.3, duration=40.0, other_work=other, max_speed_gain=4.0)
        p95[name] = [simulate(scenario, policy, 1).p95_ms for policy in ("round_robin", "best")]
    assert p95["slow"][1] < 0.9 * p95["slow"][0]
    assert p95["quotas"][1] > 0.95 * p95["quotas"][0]
    assert p95["quotas"][0] > 60.0  # busy loops on two cores use the quota of 40 ms up within 20 ms

"""Tests of farms with sites or with a backup: who gets which servers, when they fill, die and come back."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.simulated_dns import ORACLE
from lbdns_tools.sim.simulation_presets import PRESETS
from lbdns_tools.sim.simulation_results import SimulationResult
from lbdns_tools.sim.simulation_scenario import Outage, Scenario, ServerSpec, SimulatedClients

SERVERS = tuple(ServerSpec(f"{site}{n}", 1.0, 2, site=site) for site in ("ber", "par") for n in (1, 2))
CALM = Scenario(SERVERS, load=0.4, warm_up=10.0, duration=30.0)
BERLIN, PARIS, TOKYO = 0, 1, 2


@cache
def preset(name: str, policy: str) -> SimulationResult:
    return simulate(PRESETS[name].scenarios[0], policy, 1)


def local(result: SimulationResult) -> list[float]:
    return [site.local for site in result.sites]


@pytest.mark.parametrize(
    ("policy", "least", "most"),
    [("best", 0.97, 0.999), ("best:nearest", 1, 1), (ORACLE, 0.97, 1), ("round_robin:anywhere", 0.45, 0.55)],
)
def test_the_share_of_the_clients_that_stay_in_their_site(policy: str, least: float, most: float) -> None:
    for share in local(simulate(CALM, policy, 1)):
        assert least <= share <= most


def test_the_delay_is_part_of_the_response_time() -> None:
    near, far = (
        simulate(replace(CALM, near=0.005 * n, far=0.060 * n, duration=10.0), "best:nearest", 1) for n in (0, 1)
    )
    assert far.mean_ms - near.mean_ms == pytest.approx(5.0)
    for policy in ("round_robin:anywhere", ORACLE):
        without, result = (
            simulate(replace(CALM, near=0.005 * n, far=0.060 * n, duration=10.0), policy, 1) for n in (0, 1)
        )
        for site, before in zip(result.sites, without.sites, strict=True):
            if policy != ORACLE:  # the oracle selects other servers if there is no delay
                assert site.mean_ms - before.mean_ms == pytest.approx(5 * site.local + 60 * (1 - site.local))


def test_the_figures_of_the_sites_add_up() -> None:
    result = simulate(replace(CALM, outages=(Outage("par", 20.0),), duration=20.0), "best", 1)
    assert sum(site.requests for site in result.sites) == result.requests
    assert sum(site.failed for site in result.sites) == result.failed > 0
    weighted = sum(site.mean_ms * site.requests for site in result.sites) / result.requests
    assert weighted == pytest.approx(result.mean_ms)


@pytest.mark.parametrize("clients", [SimulatedClients("closed", 20, 2.0), SimulatedClients("caches", 10)])
def test_clients_of_each_kind_have_a_site(clients: SimulatedClients) -> None:
    # The first answers, when not every site has reported yet, must have left the caches
    scenario = replace(CALM, clients=clients, warm_up=35.0)
    result = simulate(scenario, "best:nearest", 1)
    assert local(result) == [1.0, 1.0]
    assert min(site.requests for site in result.sites) > 100
    assert local(simulate(scenario, "round_robin:anywhere", 1)) != [1.0, 1.0]


def test_a_full_site_sends_clients_away_and_gets_them_back_without_flapping() -> None:
    best, nearest = preset("full-site", "best"), preset("full-site", "best:nearest")
    assert 0.5 < local(best)[PARIS] < 0.9
    assert local(best)[BERLIN] > 0.98
    assert local(best)[TOKYO] > 0.98, "the clients of the full site displace nobody"
    assert [site.swings for site in best.sites] == [0, 1, 0]
    assert best.mean_ms < 0.7 * nearest.mean_ms
    assert best.mean_ms < 0.8 * preset("full-site", "best:anywhere").mean_ms
    assert best.failed <= nearest.failed


@pytest.mark.parametrize("seed", [1, 2])
def test_a_full_site_does_not_flap_behind_resolvers_that_keep_answers(seed: int) -> None:
    scenario = replace(PRESETS["full-site"].scenarios[0], clients=SimulatedClients("caches", 50))
    best = simulate(scenario, "best", seed)
    assert 0.6 < local(best)[PARIS] < 0.9
    assert [site.swings for site in best.sites] == [0, 1, 0]


def test_the_largest_site_dies_and_comes_back() -> None:
    best = preset("dying-site", "best")
    assert best.failed < 0.02 * best.requests, "only until its silence is noticed"
    assert [site.failed for site in best.sites[PARIS:]] == [pytest.approx(0, abs=5)] * 2
    assert [site.swings for site in best.sites] == [1, 0, 0]
    assert best.failed < 0.1 * preset("dying-site", "best:anywhere").failed, "the pool does not fail open"
    after = [moment.kept[BERLIN] for moment in best.moments if moment.time > 130]
    assert min(after) > 0.98
    returning = [moment.kept[BERLIN] for moment in best.moments if 101 < moment.time < 106]
    assert max(returning) < 0.5, "its clients return step by step"


def test_if_all_sites_are_overloaded_clients_stay_at_home() -> None:
    best = preset("overloaded-sites", "best")
    assert min(local(best)) > 0.95
    assert best.failed < 1.1 * preset("overloaded-sites", "round_robin:anywhere").failed


@pytest.mark.parametrize("servers", [1, 2])
def test_a_seed_is_a_run(servers: int) -> None:
    scenario = replace(CALM, dns_servers=servers, loss=0.1, check=True, check_few=True, duration=10.0)
    for policy in ("best", "best:nearest"):
        assert simulate(scenario, policy, 3) == simulate(scenario, policy, 3)


def spilled(result: SimulationResult, begin: float, end: float) -> list[float]:
    """Return the share of the answers that goes to the backup, for each second from ``begin`` to ``end``."""
    return [1 - moment.kept[0] for moment in result.moments if begin < moment.time <= end]


def test_a_full_pool_and_a_dead_pool_use_their_backup_and_let_it_go_without_flapping() -> None:
    best = preset("backup", "best")
    assert best.backup is not None
    assert max(spilled(best, 20, 39)) == 0, "the pool carries its usual load alone"
    assert 0.2 < min(spilled(best, 60, 90)) <= max(spilled(best, 60, 90)) < 0.4, "the excess of a full pool"
    assert max(spilled(best, 110, 130)) == 0, "the pool lets its backup go"
    assert min(spilled(best, 140, 160)) == 1, "the pool has no usable member"
    returning = spilled(best, 160, 220)
    assert returning == sorted(returning, reverse=True), "clients return step by step, and none leaves again"
    assert returning[-1] == 0
    assert best.backup.swings == 3, "each cause makes the share fall and rise once"
    assert best.backup.seconds < 0.6 * 200


def test_a_backup_keeps_requests_from_failing() -> None:
    best, alone, anywhere = (preset("backup", policy) for policy in ("best", "best:alone", "best:anywhere"))
    assert best.failed < 0.15 * alone.failed
    assert best.failed < 0.25 * anywhere.failed, "a single pool fails open when most of its members die"
    assert alone.backup is not None
    assert (alone.backup.requests, alone.backup.seconds) == (0, 0)
    assert anywhere.backup is not None
    assert anywhere.backup.requests > 0.4


def test_a_backup_on_several_dns_servers() -> None:
    scenario = replace(PRESETS["backup"].scenarios[0], dns_servers=2, loss=0.05, duration=90.0, outages=())
    result = simulate(scenario, "best", 1)
    assert result == simulate(scenario, "best", 1)
    assert result.backup is not None
    assert result.backup.swings == 1

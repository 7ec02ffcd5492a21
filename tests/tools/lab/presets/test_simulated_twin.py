"""Checks that the simulated hosts have the capacities of the lab's, and that both models simulate the given load."""

from __future__ import annotations

import pytest

from lbdns_tools.lab.presets.simulated_twin import QUOTAS, SLOW_CORES, SimulatedTwin, scaled_farm
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from lbdns_tools.sim.simulation_scenario import FARMS

COST_S = 0.0025  # of CPU time per request


def twin(name: str = "H10", cpu: float = 1.0) -> SimulatedTwin:
    return SimulatedTwin(scaled_farm(name, cpu, 20), tuple(server.cores for server in FARMS[name]), COST_S, 3.0)


@pytest.mark.parametrize("name", ["U10", "H10"])
def test_quotas_are_in_proportion_to_the_capacities(name: str) -> None:
    farm, servers = scaled_farm(name, 0.8, 20), FARMS[name]
    assert farm.cpu == pytest.approx(0.8)
    ratios = [host.cpu / server.capacity for host, server in zip(farm.hosts, servers, strict=True)]
    assert ratios == pytest.approx([ratios[0]] * 10)
    assert farm.host_names == tuple(server.name for server in servers)


@pytest.mark.parametrize("model", [SLOW_CORES, QUOTAS])
def test_both_models_have_the_capacities_of_the_lab(model: str) -> None:
    found = twin().servers(model)
    # 10 ms of work take COST_S of CPU time on a host with a quota
    assert [server.capacity for server in found] == pytest.approx(
        [host.cpu * 0.010 / COST_S for host in twin().farm.hosts]
    )
    assert all(server.workers == 20 for server in found)
    assert [bool(server.quota) for server in found] == [model == QUOTAS] * 10


def test_a_light_load_and_the_models() -> None:
    """A host with a quota serves a single request at full speed, and one with slow cores at its own speed."""
    columns = twin("U10").columns("round_robin", OpenLoop((40.0,), 20.0, "poisson"), 20.0)
    assert columns["request_cpu_s"] == COST_S
    assert columns["simulated_requests_per_s"] == columns["quota_requests_per_s"] == pytest.approx(40.0, rel=0.1)
    assert columns["quota_mean_s"] == pytest.approx(COST_S, rel=0.2)
    assert columns["simulated_mean_s"] > 10 * COST_S


def test_clients_that_wait_use_the_whole_farm() -> None:
    columns = twin("U10").columns("best", ClosedLoop(40, 10.0), 10.0)
    for model in (SLOW_CORES, QUOTAS):
        assert columns[f"{model}_requests_per_s"] == pytest.approx(1 / COST_S, rel=0.1)


def test_busy_loops_slow_the_busy_host_down() -> None:
    load = OpenLoop((100.0,), 10.0, "poisson")
    quiet = twin("U10").run(QUOTAS, "round_robin", load, 10.0)
    busy = twin("U10").run(QUOTAS, "round_robin", load, 10.0, busy_loops=3, busy="s4")
    assert busy.mean_ms > 2 * quiet.mean_ms


def test_a_queue_grows_only_while_the_load_lasts() -> None:
    """In the lab, the queues are empty before a load begins; the weakest hosts of H10 then get three times their
    rate."""
    load = OpenLoop((0.7 / COST_S,), 5.0, "poisson")
    assert 1000 < twin().run(QUOTAS, "round_robin", load, 5.0).p95_ms < 8000

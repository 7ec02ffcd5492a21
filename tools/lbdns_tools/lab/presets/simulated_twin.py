"""Simulates a measurement of the lab with ``lbdns-sim``: the same farm, page, load and duration.

A named farm of the simulator is scaled to the lab's machine: each host's CPU quota is in proportion to the capacity of
the simulator's server. The number of cores is not scaled, since a control group may use all processors of the machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.simulated_requests import ALL_WORKLOADS, PAGE
from lbdns_tools.sim.simulation_results import SeedAverage, average_runs
from lbdns_tools.sim.simulation_scenario import FARMS, OtherWork, Scenario, ServerSpec, SimulatedClients, Surge

#: The two models of a host: slow cores, as the simulator's farms have, and fast cores with a quota, as the lab's hosts
SLOW_CORES, QUOTAS = "simulated", "quota"
SEEDS: Final = 3
#: In the lab, lbdns learns the hosts' capacities before a measurement, and then all queues empty. The simulated server
#: learns at a load that every policy carries
LEARNING_S: Final = 20.0
LEARNING_LOAD: Final = 0.3


def scaled_farm(name: str, cpu: float, workers: int) -> LabFarm:
    """Return the simulator's farm ``name`` with quotas of ``cpu`` cores in total."""
    servers = FARMS[name]
    factor = cpu / sum(server.capacity for server in servers)
    return LabFarm(tuple(WebHost(server.name, factor * server.capacity, workers=workers) for server in servers))


@dataclass(frozen=True, slots=True)
class SimulatedTwin:
    """The simulated hosts of a lab's farm. A request for the page takes ``request_cpu_s`` of CPU time on each host.

    ``cores`` contains the number of cores of each host, for the model with slow cores. ``warm_up_s`` is the time for
    which a load lasts before it is measured.
    """

    farm: LabFarm
    cores: Sequence[float]
    request_cpu_s: float
    warm_up_s: float

    def servers(self, model: str) -> tuple[ServerSpec, ...]:
        """Return the servers of one of the two models. Both have the same capacities."""
        speed = ALL_WORKLOADS[PAGE].mean / self.request_cpu_s
        processors = float(len(os.sched_getaffinity(0)))
        servers = []
        for host, cores in zip(self.farm.hosts, self.cores, strict=True):
            spec = ServerSpec(host.name, workers=host.workers, backlog=4096)
            if model == QUOTAS:
                spec = replace(spec, speed=speed, cores=processors, quota=host.cpu)
            else:
                spec = replace(spec, speed=speed * host.cpu / cores, cores=cores)
            servers.append(spec)
        return tuple(servers)

    def run(
        self, model: str, policy: str, load: ClosedLoop | OpenLoop, seconds: float, busy_loops: int = 0, busy: str = ""
    ) -> SeedAverage:
        """Return the mean figures of several simulations. ``busy_loops`` run on the host ``busy`` all the time."""
        scenario = Scenario(self.servers(model), PAGE, warm_up=LEARNING_S + self.warm_up_s, duration=seconds)
        if isinstance(load, ClosedLoop):
            scenario = replace(scenario, clients=SimulatedClients("closed", load.clients, 0.0))
        else:
            (rate,) = load.rates
            factor = min(1.0, LEARNING_LOAD * self.farm.cpu / self.request_cpu_s / rate)
            scenario = replace(scenario, rate=rate, surges=(Surge(0.0, LEARNING_S, factor),))
        if busy_loops:
            scenario = replace(scenario, other_work=(OtherWork(busy, 0.0, math.inf, float(busy_loops)),))
        return average_runs([simulate(scenario, policy, seed) for seed in range(1, SEEDS + 1)])

    def columns(
        self, policy: str, load: ClosedLoop | OpenLoop, seconds: float, busy_loops: int = 0, busy: str = ""
    ) -> dict[str, float]:
        """Return the figures of both models as columns of results.csv."""
        found = {"request_cpu_s": self.request_cpu_s}
        for model in (SLOW_CORES, QUOTAS):
            result = self.run(model, policy, load, seconds, busy_loops, busy)
            found |= {
                f"{model}_requests_per_s": result.throughput_per_s,
                f"{model}_mean_s": result.mean_ms / 1000,
                f"{model}_p95_s": result.p95_ms / 1000,
            }
        return found

"""CPU time of the simulator for a million requests, beside the bare event loop over a heap that any simulator needs."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Final

from rich.console import Console

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.named_farms import FARMS
from lbdns_tools.sim.request_workloads import WORKLOADS
from lbdns_tools.sim.simulation_scenario import DEADLINE, Scenario

TAKES: Final = "about 30 s"
EXAMPLE: Final = "--requests 200000"
TARGET: Final = 60.0  # s of CPU time for a million requests on one core
MILLION: Final = 1_000_000
CASES: Final = (("T3", "best"), ("T3", "round_robin"), ("H10", "best"), ("U10", "best"), ("U10", "oracle"))
WORKLOAD, LOAD = "mix", 0.85


@dataclass(frozen=True, slots=True)
class SimulatorCost:
    """CPU seconds for a million requests: of one farm under one policy, and of the bare loop (``floor``)."""

    farm: str
    policy: str
    requests: int
    seconds: float
    floor: float

    @property
    def met(self) -> bool:
        return self.seconds <= TARGET


def measure_case(farm: str, policy: str, requests: int) -> SimulatorCost:
    """Simulate about ``requests`` requests, then run the bare loop over as many."""
    servers = FARMS[farm]
    rate = LOAD * sum(server.capacity for server in servers) / WORKLOADS[WORKLOAD].mean
    scenario = Scenario(servers, WORKLOAD, LOAD, warm_up=0.0, duration=max(1.0, requests / rate))
    began = time.process_time()
    simulated = simulate(scenario, policy, 1).requests
    taken = time.process_time() - began
    began = time.process_time()
    bare_loop(simulated, rate)
    floor = time.process_time() - began
    return SimulatorCost(farm, policy, simulated, taken / simulated * MILLION, floor / simulated * MILLION)


def bare_loop(requests: int, rate: float) -> int:
    """Push and pop an arrival and a departure for each of ``requests`` on one heap; return the number of departures."""
    chance = Random(1)
    events: list[tuple[float, int]] = [(0.0, 0)]
    departed = arrived = 0
    while events:
        now, kind = heappop(events)
        if kind:
            departed += 1
            continue
        arrived += 1
        heappush(events, (now + min(DEADLINE, chance.expovariate(10.0)), 1))
        if arrived < requests:
            heappush(events, (now + chance.expovariate(rate), 0))
    return departed


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    costs = [measure_case(farm, policy, options.requests) for farm, policy in CASES]
    cases = {f"{cost.farm} {cost.policy}": asdict(cost) for cost in costs}
    return {"cases": cases, "met": all(cost.met for cost in costs)}


def show(results: command.Results, console: Console) -> None:
    rows = [
        (name, f"{cost['seconds']:.1f}", f"{cost['floor']:.1f}", f"{cost['seconds'] / cost['floor']:.1f}")
        for name, cost in results["cases"].items()
    ]
    title = f"CPU seconds for a million requests, workload {WORKLOAD}, load {LOAD:g}"
    console.print(command.table(title, ("farm and policy", "simulator", "bare loop", "ratio"), rows))
    console.print(command.verdict(results, f"at most {TARGET:g} s"))


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--requests", int, 1, 10**8, 200_000, "requests of each case")

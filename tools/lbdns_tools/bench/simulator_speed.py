"""Compares the simulator's CPU time per million requests with that of a bare, heap-based event loop."""

from __future__ import annotations

import argparse
import time
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.simulated_requests import WORKLOADS
from lbdns_tools.sim.simulation_scenario import DEADLINE, FARMS, Scenario

TAKES: Final = "about 30 s"
EXAMPLE: Final = "--requests 200000"
TARGET: Final = 60.0  # s of CPU time for a million requests on one core
TARGET_TEXT: Final = f"at most {TARGET:g} s"
MILLION: Final = 1_000_000
CASES: Final = (("T3", "best"), ("T3", "round_robin"), ("H10", "best"), ("U10", "best"), ("U10", "oracle"))
WORKLOAD, LOAD = "mix", 0.85


def measure_case(farm: str, policy: str, requests: int) -> command.Results:
    """Return the CPU seconds per million requests for the simulator (``seconds``) and for the bare loop (``floor``)."""
    servers = FARMS[farm]
    rate = LOAD * sum(server.capacity for server in servers) / WORKLOADS[WORKLOAD].mean
    scenario = Scenario(servers, WORKLOAD, LOAD, warm_up=0.0, duration=max(1.0, requests / rate))
    began = time.process_time()
    simulated = simulate(scenario, policy, 1).requests
    taken = time.process_time() - began
    began = time.process_time()
    bare_loop(simulated, rate)
    floor = time.process_time() - began
    seconds, floor = (MILLION * spent / simulated for spent in (taken, floor))
    return {"farm": farm, "policy": policy, "requests": simulated, "seconds": seconds, "floor": floor}


def bare_loop(requests: int, rate: float) -> int:
    """Push and pop one arrival and one departure per request on a heap, and return the number of departures."""
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
    cases = {f"{farm} {policy}": measure_case(farm, policy, options.requests) for farm, policy in CASES}
    return {"cases": cases, "met": all(cost["seconds"] <= TARGET for cost in cases.values())}


def tables(results: command.Results) -> command.Tables:
    rows = [
        (name, f"{cost['seconds']:.1f}", f"{cost['floor']:.1f}", f"{cost['seconds'] / cost['floor']:.1f}")
        for name, cost in results["cases"].items()
    ]
    title = f"CPU seconds per million requests, for workload {WORKLOAD} at load {LOAD:g}"
    return [command.table(title, ("farm and policy", "simulator", "bare loop", "ratio"), rows)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(
        parser, "--requests", int, 1, 10**8, 200_000, "number of requests to simulate per farm and policy"
    )

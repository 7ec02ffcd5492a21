"""How long the simulator takes for a million requests, beside the bare loop over a heap that any such program needs.

python -m lbdns_tools.bench.sim --requests 200000
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from random import Random
from typing import Final

from lbdns_tools.sim.engine import run
from lbdns_tools.sim.farms import FARMS
from lbdns_tools.sim.scenario import DEADLINE, Scenario
from lbdns_tools.sim.workloads import WORKLOADS

TARGET: Final = 60.0  # s of CPU time for a million requests on one core
MILLION: Final = 1_000_000
CASES: Final = (("T3", "best"), ("T3", "round_robin"), ("H10", "best"), ("U10", "best"), ("U10", "oracle"))
WORKLOAD, LOAD = "mix", 0.85


@dataclass(frozen=True, slots=True)
class Figure:
    """CPU seconds for a million requests of one farm under one policy, and for a million of the bare loop."""

    farm: str
    policy: str
    requests: int
    seconds: float
    floor: float

    @property
    def met(self) -> bool:
        return self.seconds <= TARGET


def measure(farm: str, policy: str, requests: int) -> Figure:
    """Simulate about ``requests`` requests, and then let the bare loop go through as many."""
    servers = FARMS[farm]
    rate = LOAD * sum(server.capacity for server in servers) / WORKLOADS[WORKLOAD].mean
    scenario = Scenario(servers, WORKLOAD, LOAD, warm_up=0.0, duration=max(1.0, requests / rate))
    began = time.process_time()
    simulated = run(scenario, policy, 1).requests
    taken = time.process_time() - began
    began = time.process_time()
    bare_loop(simulated, rate)
    floor = time.process_time() - began
    return Figure(farm, policy, simulated, taken / simulated * MILLION, floor / simulated * MILLION)


def bare_loop(requests: int, rate: float) -> int:
    """An arrival and a departure for each of ``requests``, drawn and taken from one heap; how many departed."""
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; exit status 1 with --fail when a case is over the target."""
    parser = argparse.ArgumentParser(prog="sim", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=200_000, help="of each case (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--fail", action="store_true", help=f"exit status 1 when a case takes over {TARGET:g} s")
    arguments = parser.parse_args(argv)
    if arguments.requests < 1:
        parser.error("--requests: 1 is the least")
    figures = [measure(farm, policy, arguments.requests) for farm, policy in CASES]
    if arguments.json:
        print(json.dumps([asdict(figure) | {"met": figure.met} for figure in figures], indent=2))
    else:
        print(f"CPU seconds for a million requests, workload {WORKLOAD}, load {LOAD:g}; target {TARGET:g}")
        for f in figures:
            print(
                f"{f.farm:<4} {f.policy:<12} {f.seconds:6.1f}   bare loop {f.floor:5.1f}   {f.seconds / f.floor:5.1f} x"
            )
    return 1 if arguments.fail and not all(figure.met for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())

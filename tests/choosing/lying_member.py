"""A pool on a virtual clock in which the last member sends false reports for a while."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Final

from lbdns.choosing.chooser import Chooser
from lbdns.model.overrides import NO_POOL_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.policies.plan import Selections

#: (true metrics, seconds since the first false report) -> the metrics and the interval that the member reports
Lie = Callable[[dict[str, float], int], tuple[dict[str, float], float]]

CORES: Final = 2.0
SPEED: Final = 100.0  # requests per CPU second
FROM, UNTIL, END = 60, 150, 185  # s: when the reports are false, and when the run ends


@dataclass(frozen=True, slots=True)
class Observed:
    """What the chooser made of the reports, second by second."""

    capacities: list[tuple[float, ...]]
    shares: list[tuple[float, ...]]

    def capacity(self, member: int, begin: int, end: int) -> float:
        return fmean(second[member] for second in self.capacities[begin:end])

    def share(self, member: int, begin: int, end: int) -> float:
        return fmean(second[member] for second in self.shares[begin:end])


def run_pool(members: int, load: float, lie: Lie, policy: str = "best") -> Observed:
    """Run a pool of identical members at ``load`` (1: all its capacity), and return what was observed."""
    chance = Random(1)
    names = [f"m{i}" for i in range(members)]
    chooser = Chooser(names, 3.0, 0.5, Random(2))
    requests, cpu = [0.0] * members, [0.0] * members
    shares = (1 / members,) * members
    selections: Selections | None = None
    observed = Observed([], [])
    rate = load * members * SPEED * CORES
    for now in range(END):
        readings = {}
        for i, name in enumerate(names):
            arriving = rate * shares[i]
            served = min(SPEED * CORES, max(0.0, chance.gauss(arriving, math.sqrt(arriving))))
            requests[i] += served + 1  # the agent reads the server status once
            cpu[i] += served / SPEED * chance.uniform(0.9, 1.1)
            used = min(0.98, arriving / (SPEED * CORES))
            metrics = {
                "requests_total": requests[i], "httpd_cpu_seconds": cpu[i], "cpu_count": CORES, "run_queue": 0.0,
                "busy_workers": float(round(CORES * used / (1 - used))), "cpu_idle": 100 * (1 - used),
                "requests_per_s": served,
            }  # fmt: skip
            interval = 1.0
            if i == members - 1 and FROM <= now < UNTIL:
                metrics, interval = lie(metrics, now - FROM)
            readings[name] = Reading(float(now), interval, 100, metrics, "", False, None)
        chooser.observe(Snapshot(now + 1, readings), NO_POOL_OVERRIDES, float(now))
        plan = chooser.plan(policy, selections, float(now))
        shares = plan.weights or tuple(plan.order.count(i) / len(plan.order) for i in range(members))
        selections = Selections(plan, tuple(int(rate * share) for share in shares), plan.order[-1])
        observed.capacities.append(chooser.pool.observed_capacities())
        observed.shares.append(shares)
    return observed

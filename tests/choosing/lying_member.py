"""A pool on a virtual clock in which the last member sends false reports for a while."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import fmean
from typing import Final

from lbdns.choosing.chooser import Chooser
from lbdns.model.overrides import NO_POOL_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.policies.plan import Selections

Metrics = dict[str, float]
#: (true metrics, seconds since the first false report) -> the metrics and the interval that the member reports
Lie = Callable[[Metrics, int], tuple[Metrics, float]]

CORES: Final = 2.0
SPEED: Final = 100.0  # requests per CPU second
FROM, UNTIL, END = 60, 150, 185  # s: when the reports are false, and when the run ends
SETTLED: Final = FROM + 40  # s: when the false reports have had their effect
HONEST_AGAIN: Final = UNTIL + 30


@dataclass(frozen=True, slots=True)
class Observed:
    """What the chooser made of the reports, second by second."""

    capacities: list[tuple[float, ...]]
    shares: list[tuple[float, ...]]

    def capacity(self, member: int, begin: int, end: int) -> float:
        return fmean(second[member] for second in self.capacities[begin:end])

    def share(self, member: int, begin: int, end: int) -> float:
        return fmean(second[member] for second in self.shares[begin:end])


@dataclass(frozen=True, slots=True)
class FalseReports:
    """What a lying member reports: factors on its counters' increases, and values in place of the true ones."""

    requests: float = 1.0
    cpu: float = 1.0
    busy_workers: float | None = None
    cpu_idle: float | None = None
    cores: float | None = None
    requests_per_s: float = 1.0
    interval: float = 1.0
    missing: tuple[str, ...] = ()


class LyingMember:
    """Reports each of ``phases`` for the same time, one after another."""

    def __init__(self, phases: Sequence[FalseReports]) -> None:
        self.phases = phases
        self._true = self._reported = (0.0, 0.0)

    def __call__(self, metrics: Metrics, second: int) -> tuple[Metrics, float]:
        phase = self.phases[second * len(self.phases) // (UNTIL - FROM)]
        true = metrics["requests_total"], metrics["httpd_cpu_seconds"]
        if second == 0:
            self._reported = true
        else:
            factors = phase.requests, phase.cpu
            self._reported = tuple(  # type: ignore[assignment]
                told + factor * (now - before)
                for told, factor, now, before in zip(self._reported, factors, true, self._true, strict=True)
            )
        self._true = true
        reported = {**metrics, "requests_total": self._reported[0], "httpd_cpu_seconds": self._reported[1]}
        reported["requests_per_s"] *= phase.requests_per_s
        replaced = {"busy_workers": phase.busy_workers, "cpu_idle": phase.cpu_idle, "cpu_count": phase.cores}
        reported.update({name: value for name, value in replaced.items() if value is not None})
        return {name: value for name, value in reported.items() if name not in phase.missing}, phase.interval


def honest(metrics: Metrics, second: int) -> tuple[Metrics, float]:
    return metrics, 1.0


@cache
def honest_pool(members: int, load: float) -> Observed:
    return run_pool(members, load, honest)


@cache
def idle_pool(members: int, load: float, cores: tuple[float | None, ...] = (None,)) -> Observed:
    """Run a pool whose last member is always idle and reports ``cores``, one after another (None: its true cores)."""
    idle = [FalseReports(busy_workers=0.0, cpu_idle=100.0, cores=number, requests_per_s=0.0) for number in cores]
    return run_pool(members, load, LyingMember(idle))


def run_pool(
    members: int, load: float, lie: Lie, policy: str = "best", without: Sequence[str] = (), silent: bool = False
) -> Observed:
    """Run a pool of identical members at ``load`` (1: all its capacity), and return what was observed.

    The first member reports no metrics of ``without``; if ``silent``, it never reports at all, and serves nothing.
    """
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
            if i == 0:
                if silent:
                    continue
                metrics = {name: value for name, value in metrics.items() if name not in without}
            readings[name] = Reading(float(now), interval, 100, metrics, "", False, None)
        chooser.observe(Snapshot(now + 1, readings), NO_POOL_OVERRIDES, float(now))
        plan = chooser.plan(policy, selections, float(now))
        shares = plan.weights or tuple(plan.order.count(i) / len(plan.order) for i in range(members))
        selections = Selections(plan, tuple(int(rate * share) for share in shares), plan.order[-1])
        observed.capacities.append(chooser.pool.observed_capacities())
        observed.shares.append(shares)
    return observed

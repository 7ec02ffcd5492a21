"""Outcomes with given figures, a fake lab, and a fake measurement. The two fakes record the calls that they receive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lbdns_tools.lab.farm.lab_farm import LabFarm, LabMachine, machines
from lbdns_tools.lab.machines.link_distances import LinkDistances
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase, MeasuredOutcome
from lbdns_tools.lab.measuring.cgroup_sampler import MachineSample
from lbdns_tools.lab.programs.balancer_setup import BalancerSetup
from lbdns_tools.load.load_study import PlannedRun
from tests.tools.load.made_up_rows import row


def about(value: float) -> Any:
    """Return pytest.approx(value), typed as Any so that type checkers accept it inside tuples."""
    return pytest.approx(value)


def made(
    selection: str = "best",
    workload: str = "html",
    resolve: str = "connection",
    clients: int | None = 20,
    farm: str = "unequal",
    *,
    throughput: float | None = 100.0,
    mean: float | None = 0.05,
    p95: float | None = 0.1,
    rate: float | None = None,
    repetition: int = 1,
    shares: Mapping[str, float] | None = None,
    cpu: Mapping[str, float] | None = None,
    error_percent: float = 0.0,
    **more: str | float,
) -> MeasuredOutcome:
    """Return a synthetic outcome. ``cpu`` maps groups to their CPU use (percentages of one core) in two seconds."""
    of = row(clients, 50, rate=rate, label=workload, repetition=repetition)
    figures = replace(
        of.figures, requests_per_s=throughput, connections_per_s=throughput, mean_s=mean, p95_s=p95,
        shares=shares or {}, error_percent=error_percent,
    )  # fmt: skip
    samples = tuple(MachineSample(1e9 + second, cpu, dict.fromkeys(cpu, 10**7)) for second in (1, 2)) if cpu else ()
    case = MeasuredCase(selection, workload, resolve, f"{selection}.target", farm, more)
    return MeasuredOutcome(case, replace(of, figures=figures), samples)


@dataclass
class FakeLab:
    """A fake lab that has only the methods that steps call. ``heard`` lists these calls in order."""

    farm: LabFarm
    heard: list[str] = field(default_factory=list)
    setups: list[BalancerSetup] = field(default_factory=list)  # of all balancers that ran, in order
    apart: list[LinkDistances] = field(default_factory=list)  # all distances that applied, in order

    @property
    def machines(self) -> Mapping[str, LabMachine]:
        return {machine.name: machine for machine in machines(self.farm)}

    def fresh(self) -> None:
        self.heard.append("fresh")

    def settle(self, seconds: float = 0.0) -> None:
        self.heard.append("settle")

    @contextmanager
    def sysctls(self, kind: str, values: Mapping[str, str]) -> Iterator[None]:
        self.heard.append(f"{kind} {dict(values)} begins")
        try:
            yield
        finally:
            self.heard.append(f"{kind} {dict(values)} ends")

    @contextmanager
    def distances(self, distances: LinkDistances) -> Iterator[None]:
        self.heard.append("distances begin")
        self.apart.append(distances)
        try:
            yield
        finally:
            self.heard.append("distances end")

    @contextmanager
    def proxy(self, setup: BalancerSetup) -> Iterator[str]:
        self.heard.append(f"{setup.program} {setup.method} begins")
        self.setups.append(setup)
        try:
            yield self.machines[setup.program].address
        finally:
            self.heard.append(f"{setup.program} ends")


@dataclass
class FakeMeasure:
    """A stand-in for ``measuring.measure`` that records the case, the planned run and the repetition of each call."""

    throughput: float = 100.0
    error_percent: float = 0.0
    calls: list[tuple[MeasuredCase, PlannedRun, int]] = field(default_factory=list)

    def __call__(self, lab: FakeLab, case: MeasuredCase, planned: PlannedRun, repetition: int = 1) -> MeasuredOutcome:
        lab.heard.append(f"measure {case.selection}")
        self.calls.append((case, planned, repetition))
        of = made(throughput=self.throughput, error_percent=self.error_percent)
        point = planned.point
        return MeasuredOutcome(case, replace(of.row, point=point, repetition=repetition))

"""Measures one case of a study by running load, sampling all machines, and counting DNS answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from lbdns_tools.lab.farm.lab_farm import LabMachine
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.measuring.cgroup_sampler import CgroupSampler, MachineSample
from lbdns_tools.lab.measuring.kernel_limits import KernelFigures, KernelWatch
from lbdns_tools.load.load_plan import LoadRun
from lbdns_tools.load.load_process_pool import InterruptedRunError, LoadPlace, RunMeasurement
from lbdns_tools.load.load_study import PlannedRun
from lbdns_tools.load.result_rows import ResultRow

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """One measured point of a study, with the values that identify it in the results.

    ``selection`` is the server selection method, such as ``single``, ``alone``, ``round_robin`` or ``haproxy``.
    ``resolve`` is the clients' resolve rule (``connection``, ``webstone``, ...), or "" if clients use an address.
    ``target`` is the name or address that clients use. ``farm`` is the name of a farm in the study, such as "unequal"
    or "equal". ``more`` contains additional columns of the study.
    """

    selection: str
    workload: str
    resolve: str
    target: str
    farm: str = ""
    more: Mapping[str, str | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasuredOutcome:
    """The outcome of a measured case. ``samples`` excludes the warm-up; ``answers`` and ``kernel`` include it."""

    case: MeasuredCase
    row: ResultRow
    samples: tuple[MachineSample, ...] = ()
    answers: Mapping[str, int] = field(default_factory=dict)  # member -> DNS answers that named it during the run
    kernel: KernelFigures = field(default_factory=dict)

    def cpu_percent(self, group: str) -> float | None:
        """Return a group's mean CPU use, as a percentage of one core, or None if it was never sampled."""
        values = [sample.cpu[group] for sample in self.samples if group in sample.cpu]
        return sum(values) / len(values) if values else None

    def memory_bytes(self, group: str) -> int | None:
        """Return a group's peak memory use in bytes, or None if it was never sampled."""
        return max((sample.memory[group] for sample in self.samples if group in sample.memory), default=None)


def measure(lab: Lab, case: MeasuredCase, planned: PlannedRun, repetition: int = 1) -> MeasuredOutcome:
    """Run a planned load from the lab's client hosts, and return the outcome.

    The shares in the outcome are keyed by machine name, not by address. ``answers`` includes the answers during the
    warm-up. If clients use an address instead of a name, ``answers`` is empty. Raises LbdnsError, or KeyboardInterrupt
    if the run is interrupted.
    """
    places = tuple(place_of(client) for client in lab.clients())
    with CaseWatch(lab, case) as watch:
        try:
            row = RunMeasurement(places=places).measure(planned, repetition)
        except InterruptedRunError:
            raise KeyboardInterrupt from None
        return watch.outcome(planned.run, row)


def place_of(client: PlacedMachine) -> LoadPlace:
    """Return the place where a load process runs on a client host."""
    return LoadPlace(client.command(), client.machine.addresses4)


class CaseWatch:
    """A context manager that samples all machines and counts DNS answers while a case is measured."""

    def __init__(self, lab: Lab, case: MeasuredCase) -> None:
        self._lab, self._case = lab, case
        self._kernel = KernelWatch({name: place for name, place in lab.places.items() if name in lab.groups})
        self._sampler = CgroupSampler(lab.groups, also=self._kernel.sample)
        self._before: Mapping[str, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._before = self._answers()
        with self._stack as stack:
            stack.enter_context(self._kernel)
            stack.enter_context(self._sampler)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def outcome(self, run: LoadRun, row: ResultRow) -> MeasuredOutcome:
        """Return the outcome of a run that has just ended. Raises LbdnsError."""
        samples, limits = self._sampler.between(*counted(run, row)), self._kernel.figures()
        counts = {name: count - self._before.get(name, 0) for name, count in self._answers().items()}
        return MeasuredOutcome(self._case, by_name(row, self._lab.machines), samples, counts, limits)

    def _answers(self) -> dict[str, int]:
        return answers(self._lab.status()) if self._case.resolve else {}


def counted(run: LoadRun, row: ResultRow) -> tuple[float, float]:
    """Return the Unix times of the start and the end of the measurement, which excludes the warm-up."""
    begin = (row.begun or 0.0) + run.warm_up_s
    window = run.seconds - run.warm_up_s
    by_requests = any(phase.load.requests for phase in run.phases)
    # Responses may arrive after the load has ended; figures.seconds then exceeds the load's duration
    length = min(window, row.figures.seconds) if by_requests or math.isinf(window) else window
    return begin, begin + length


def answers(status: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of DNS answers that named each member, summed over all pools in a status document."""
    found: dict[str, int] = {}
    for pool in status["pools"]:
        for member in pool["members"]:
            found[member["name"]] = found.get(member["name"], 0) + int(member["answers"])
    return found


def by_name(row: ResultRow, machines: Mapping[str, LabMachine]) -> ResultRow:
    """Return a copy of ``row`` whose shares are keyed by machine name instead of by address.

    Addresses that belong to no machine stay unchanged.
    """
    names = {address: name for name, machine in machines.items() for address in (*machine.addresses4, machine.address6)}
    shares = {names.get(address, address): share for address, share in row.figures.shares.items()}
    return replace(row, figures=replace(row.figures, shares=shares, names={}))

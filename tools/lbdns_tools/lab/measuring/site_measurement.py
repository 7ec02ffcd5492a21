"""Measures one case of a study in which each client host has a load of its own, as clients of different sites have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.measuring.case_measurement import CaseWatch, MeasuredCase, MeasuredOutcome, by_name, place_of
from lbdns_tools.load.load_process_pool import run_together
from lbdns_tools.load.load_study import PlannedRun
from lbdns_tools.load.process_measurements import RunResult
from lbdns_tools.load.result_rows import ResultRow
from lbdns_tools.load.run_statistics import run_statistics

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

SITE: Final = "site"  # the column with the site of the clients
ALL: Final = "all"  # its value for the clients of all sites together


def measure(
    lab: Lab, case: MeasuredCase, planned: Mapping[str, PlannedRun], repetition: int = 1
) -> list[MeasuredOutcome]:
    """Run a load from each client host at the same time. ``planned`` contains the client hosts' loads, by name.

    Return the outcome of all clients together, and then the outcome of each client host. All runs must last equally
    long. Raises LbdnsError, or KeyboardInterrupt if the run is interrupted.
    """
    clients = [client for client in lab.clients() if client.machine.name in planned]
    loads = [planned[client.machine.name] for client in clients]
    runs = [load.again(repetition) for load in loads]
    point = replace(loads[0].point, rate_per_s=sum(load.point.rate_per_s or 0.0 for load in loads))
    whole = replace(case, more={**case.more, SITE: ALL})
    with CaseWatch(lab, whole) as watch:
        together, each = run_together([(run, place_of(client)) for run, client in zip(runs, clients, strict=True)])
        if together.interrupted:
            raise KeyboardInterrupt
        outcomes = [watch.outcome(runs[0], _row(replace(loads[0], point=point), together, repetition))]
    for load, client, result in zip(loads, clients, each, strict=True):
        row = by_name(_row(load, result, repetition), lab.machines)
        outcomes.append(MeasuredOutcome(replace(case, more={**case.more, SITE: client.machine.site}), row))
    return outcomes


def _row(planned: PlannedRun, result: RunResult, repetition: int) -> ResultRow:
    figures = run_statistics(result.tally, result.seconds, result.saturation, result.names)
    return ResultRow(planned.point, repetition, figures, result.tally, result.begun)

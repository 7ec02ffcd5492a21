"""The command ``lbdns-sim acceptance``, which checks the policy ``best`` against its acceptance criteria."""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from lbdns_tools.progress_bar import count_bar
from lbdns_tools.sim.acceptance_demands import AcceptanceCase, AcceptanceDemand, FigureOf, demands
from lbdns_tools.sim.simulation_jobs import SimulationJob, in_processes, usable_processors
from lbdns_tools.sim.simulation_results import SimulationResult
from lbdns_tools.sim.simulation_scenario import Scenario

#: The results of all seeds, by scenario and policy
ResultsByCase = Mapping[tuple[Scenario, str], Sequence[SimulationResult]]
WIDE = 160  # columns of a table when standard output is not a terminal


@dataclass(frozen=True, slots=True)
class AcceptanceVerdict:
    """The verdict on a criterion.

    ``value`` is the criterion's figure, averaged over all seeds. ``error`` is the jackknife standard error of
    ``value``, or 0 if there is only one seed.
    """

    demand: AcceptanceDemand
    value: float
    error: float

    @property
    def holds(self) -> bool:
        return self.demand.holds(self.value, self.error)

    def as_json(self) -> dict[str, Any]:
        figures = {"value": self.value, "error": self.error, "holds": self.holds}
        return {"row": self.demand.row, "what": self.demand.what, "demand": self.demand.limit, **figures}


def jobs_of(chosen: Sequence[AcceptanceDemand], seeds: int) -> list[SimulationJob]:
    """Return all simulation runs that the criteria ``chosen`` require. The result contains no duplicates."""
    cases = dict.fromkeys((case.scenario, case.policy) for demand in chosen for case in demand.cases)
    return [SimulationJob(scenario, policy, seed) for scenario, policy in cases for seed in range(1, seeds + 1)]


def judge(
    chosen: Sequence[AcceptanceDemand],
    seeds: int,
    processes: int,
    on_done: Callable[[SimulationJob], None] = lambda job: None,
) -> list[AcceptanceVerdict]:
    """Run all simulations that the criteria ``chosen`` require, and return one verdict per criterion."""
    jobs = jobs_of(chosen, seeds)
    runs: dict[tuple[Scenario, str], list[SimulationResult]] = {}
    for job, result in zip(jobs, in_processes(SimulationJob.run, jobs, processes, on_done), strict=True):
        runs.setdefault((job.scenario, job.policy), []).append(result)
    return [verdict(demand, runs, seeds) for demand in chosen]


def verdict(demand: AcceptanceDemand, runs: ResultsByCase, seeds: int) -> AcceptanceVerdict:
    value = demand.figure(_averages(runs, None))
    if seeds < 2:
        return AcceptanceVerdict(demand, value, 0.0)
    without = [demand.figure(_averages(runs, seed)) for seed in range(seeds)]
    if not all(map(math.isfinite, without)):  # a ratio to nothing
        return AcceptanceVerdict(demand, value, 0.0 if len(set(without)) == 1 else math.inf)
    return AcceptanceVerdict(demand, value, (seeds - 1) ** 0.5 * statistics.pstdev(without))


def _averages(runs: ResultsByCase, left_out: int | None) -> FigureOf:
    """Return a function that averages a case's figure over all seeds except ``left_out``."""

    def look(case: AcceptanceCase, figure: str) -> float:
        results = runs[case.scenario, case.policy]
        return statistics.fmean(float(getattr(r, figure)) for i, r in enumerate(results) if i != left_out)

    return look


@click.command(
    "acceptance",
    short_help="Check the policy 'best' against its acceptance criteria.",
    epilog="Example: lbdns-sim acceptance --quick\n\nExit status: 0 if all criteria are met, 1 if not.",
)
@click.option("--quick", is_flag=True, help="Check all groups of criteria with fewer cases and shorter runs.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    help="Number of runs over which each case is averaged.  [default: 6, or 2 with --quick]",
)
@click.option("--processes", type=click.IntRange(1, 256), help="Number of parallel runs.  [default: one per processor]")
@click.option("--only", metavar="TEXT", default="", help="Check only the criteria whose group or case contains TEXT.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
def command(quick: bool, seeds: int | None, processes: int | None, only: str, as_json: bool) -> None:
    """Check the policy 'best' against its acceptance criteria, and print the value and verdict of each criterion."""
    chosen = [d for d in demands(quick) if only.lower() in f"{d.row} {d.what}".lower()]
    if not chosen:
        raise click.UsageError(f"no criterion contains {only!r}; omit --only to list all criteria")
    seeds = seeds or (2 if quick else 6)
    began = time.monotonic()
    with count_bar(len(jobs_of(chosen, seeds)), "runs") as done:
        verdicts = judge(chosen, seeds, processes or usable_processors(), done)
    seconds = time.monotonic() - began
    if as_json:
        found = {"seeds": seeds, "seconds": seconds, "verdicts": [v.as_json() for v in verdicts]}
        click.echo(json.dumps(found, indent=1))
    else:
        _show(verdicts, seeds, seconds)
    if not all(v.holds for v in verdicts):
        sys.exit(1)


def _show(verdicts: Sequence[AcceptanceVerdict], seeds: int, seconds: float) -> None:
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    for row in dict.fromkeys(v.demand.row for v in verdicts):
        table = Table("cell", "figure", "+-", "criterion", "verdict", title=row, title_justify="left", min_width=100)
        for v in verdicts:
            if v.demand.row == row:
                mark = "[green]holds[/green]" if v.holds else "[bold red]FAILS[/bold red]"
                table.add_row(v.demand.what, f"{v.value:.3f}", f"{v.error:.3f}", v.demand.limit, mark)
        console.print(table)
    held = sum(v.holds for v in verdicts)
    console.print(f"{held} of {len(verdicts)} criteria met ({seeds} seeds, {seconds:.0f} s)")

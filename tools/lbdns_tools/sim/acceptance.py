"""``lbdns-sim acceptance``: everything that policy ``best`` has to show: the demand, the figure, the verdict."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from lbdns_tools.sim.demands import Case, Demand, Look, demands
from lbdns_tools.sim.progress import progress
from lbdns_tools.sim.results import Result
from lbdns_tools.sim.runner import Job, run_jobs, usable_processors
from lbdns_tools.sim.scenario import Scenario

#: By scenario and policy: a result a seed
Runs = Mapping[tuple[Scenario, str], Sequence[Result]]
WIDE = 160  # columns of the table where there is no terminal


@dataclass(frozen=True, slots=True)
class Verdict:
    """``value`` is worked out of averages over the seeds, ``error`` its standard error (jackknife; 0 with one seed)."""

    demand: Demand
    value: float
    error: float

    @property
    def holds(self) -> bool:
        return self.demand.holds(self.value, self.error)

    def as_json(self) -> dict[str, Any]:
        return {
            "row": self.demand.row,
            "what": self.demand.what,
            "demand": f"{'>=' if self.demand.at_least else '<='} {self.demand.bound:g}",
            "value": self.value,
            "error": self.error,
            "holds": self.holds,
        }


def jobs_of(wanted: Sequence[Demand], seeds: int) -> list[Job]:
    """Every run that ``wanted`` needs, each once."""
    cases = dict.fromkeys((case.scenario, case.policy) for demand in wanted for case in demand.cases)
    return [Job(scenario, policy, seed) for scenario, policy in cases for seed in range(1, seeds + 1)]


def judge(
    wanted: Sequence[Demand], seeds: int, processes: int, on_done: Callable[[Job], None] = lambda job: None
) -> list[Verdict]:
    """Run what ``wanted`` needs and say what came of it."""
    jobs = jobs_of(wanted, seeds)
    runs: dict[tuple[Scenario, str], list[Result]] = {}
    for job, result in zip(jobs, run_jobs(jobs, processes, on_done), strict=True):
        runs.setdefault((job.scenario, job.policy), []).append(result)
    return [verdict(demand, runs, seeds) for demand in wanted]


def verdict(demand: Demand, runs: Runs, seeds: int) -> Verdict:
    value = demand.figure(_averages(runs, None))
    if seeds < 2:
        return Verdict(demand, value, 0.0)
    without = [demand.figure(_averages(runs, seed)) for seed in range(seeds)]
    return Verdict(demand, value, (seeds - 1) ** 0.5 * statistics.pstdev(without))


def _averages(runs: Runs, left_out: int | None) -> Look:
    """Figures averaged over all seeds but one."""

    def look(case: Case, figure: str) -> float:
        results = runs[case.scenario, case.policy]
        return statistics.fmean(float(getattr(r, figure)) for i, r in enumerate(results) if i != left_out)

    return look


@click.command(
    epilog="Example: lbdns-sim acceptance --quick\n\nExit status: 0 if every demand holds, 1 if one doesn't."
)
@click.option("--quick", is_flag=True, help="The same rows on fewer cells and shorter runs.")
@click.option("--seeds", type=click.IntRange(1, 100), help="Runs a cell, averaged.  [default: 6; 2 with --quick]")
@click.option("--processes", type=click.IntRange(1, 256), help="Side by side.  [default: one a processor]")
@click.option("--only", metavar="TEXT", default="", help="Only demands whose row or case has TEXT in it.")
@click.option("--json", "as_json", is_flag=True, help="Verdicts as JSON on standard output.")
def command(quick: bool, seeds: int | None, processes: int | None, only: str, as_json: bool) -> None:
    """Judge policy best by everything it has to show, and print demand, figure and verdict."""
    wanted = [d for d in demands(quick) if only.lower() in f"{d.row} {d.what}".lower()]
    if not wanted:
        raise click.UsageError(f"no demand has {only!r} in it; without --only all are listed")
    seeds = seeds or (2 if quick else 6)
    began = time.monotonic()
    with progress(len(jobs_of(wanted, seeds))) as done:
        verdicts = judge(wanted, seeds, processes or usable_processors(), done)
    seconds = time.monotonic() - began
    if as_json:
        found = {"seeds": seeds, "seconds": seconds, "verdicts": [v.as_json() for v in verdicts]}
        click.echo(json.dumps(found, indent=1))
    else:
        _show(verdicts, seeds, seconds)
    if not all(v.holds for v in verdicts):
        sys.exit(1)


def _show(verdicts: Sequence[Verdict], seeds: int, seconds: float) -> None:
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    for row in dict.fromkeys(v.demand.row for v in verdicts):
        table = Table("cell", "figure", "+-", "demand", "verdict", title=row, title_justify="left", min_width=100)
        for v in verdicts:
            if v.demand.row == row:
                sign = ">=" if v.demand.at_least else "<="
                mark = "[green]holds[/green]" if v.holds else "[bold red]FAILS[/bold red]"
                table.add_row(v.demand.what, f"{v.value:.3f}", f"{v.error:.3f}", f"{sign} {v.demand.bound:g}", mark)
        console.print(table)
    held = sum(v.holds for v in verdicts)
    console.print(f"{held} of {len(verdicts)} demands hold; averages of {seeds} seeds; {seconds:.0f} s")

"""The command ``lbdns-sim ablation``, which measures how much each rule of the policy ``best`` contributes."""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from lbdns_tools.progress_bar import count_bar
from lbdns_tools.sim.ablation_rules import RULES, AblationRule, switched_off
from lbdns_tools.sim.acceptance_command import WIDE, ResultsByCase, verdict
from lbdns_tools.sim.acceptance_demands import AcceptanceCase, AcceptanceDemand, demands
from lbdns_tools.sim.simulation_jobs import SimulationJob, in_processes, usable_processors
from lbdns_tools.sim.simulation_results import SimulationResult

BEST: Final = "best"
DEVIATIONS: Final = 2.0  # standard errors: a smaller effect counts as chance


@dataclass(frozen=True, slots=True)
class AblationJob:
    """A simulation run with the rule named ``rule`` switched off, or with all rules if the name is empty."""

    rule: str
    run_of: SimulationJob

    def __str__(self) -> str:
        return f"without {self.rule}, {self.run_of}" if self.rule else str(self.run_of)

    def run(self) -> SimulationResult:
        with switched_off(self.rule):
            return self.run_of.run()


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of switching a rule off: the mean response time without the rule, divided by that with the rule.

    ``error`` is the jackknife standard error over the seeds.
    """

    ratio: float
    error: float

    @property
    def is_chance(self) -> bool:
        return abs(self.ratio - 1) <= DEVIATIONS * self.error


@dataclass(frozen=True, slots=True)
class RuleWorth:
    """The worth of one rule: its effects on the results, and the criteria that depend on it.

    ``everywhere`` is the geometric mean of the effects in all cases; ``most`` and ``least`` are the largest and the
    smallest effect in any single case. ``lost`` lists the criteria that are met only with the rule, and ``gained``
    lists those that are met only without it.
    """

    rule: AblationRule
    everywhere: Effect
    most: tuple[str, Effect]
    least: tuple[str, Effect]
    lost: tuple[str, ...]
    gained: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        def case(found: tuple[str, Effect]) -> dict[str, Any]:
            return {"case": found[0], "ratio": found[1].ratio, "error": found[1].error}

        return {
            "rule": self.rule.name,
            "purpose": self.rule.purpose,
            "ratio": self.everywhere.ratio,
            "error": self.everywhere.error,
            "most": case(self.most),
            "least": case(self.least),
            "lost": list(self.lost),
            "gained": list(self.gained),
        }


def worth(rule: AblationRule, chosen: Sequence[AcceptanceDemand], runs: ResultsByCase, off: ResultsByCase) -> RuleWorth:
    """Return the benefit of ``rule``, computed from the results with all rules (``runs``) and without ``rule``
    (``off``).

    ``off`` contains only results of the policy ``best``.
    """
    cases = _best_cases(chosen)
    effects = {case.name: effect_in([case], runs, off) for case in cases}
    seeds = len(next(iter(runs.values())))
    without_rule = {**runs, **off}
    held = [(d, verdict(d, runs, seeds).holds, verdict(d, without_rule, seeds).holds) for d in chosen]
    return RuleWorth(
        rule,
        effect_in(cases, runs, off),
        max(effects.items(), key=lambda item: item[1].ratio - DEVIATIONS * item[1].error),
        min(effects.items(), key=lambda item: item[1].ratio + DEVIATIONS * item[1].error),
        tuple(d.what for d, before, after in held if before and not after),
        tuple(d.what for d, before, after in held if after and not before),
    )


def effect_in(cases: Sequence[AcceptanceCase], runs: ResultsByCase, off: ResultsByCase) -> Effect:
    """Return the ratio of the mean response times in ``off`` to those in ``runs``, as the geometric mean over
    ``cases``.
    """
    seeds = len(runs[cases[0].scenario, BEST])

    def ratio(left_out: int | None) -> float:
        logs = []
        for case in cases:
            key = case.scenario, BEST
            before, after = (
                statistics.fmean(r.mean_ms for i, r in enumerate(results[key]) if i != left_out)
                for results in (runs, off)
            )
            logs.append(math.log(after / before))
        return math.exp(statistics.fmean(logs))

    if seeds < 2:
        return Effect(ratio(None), 0.0)
    return Effect(ratio(None), (seeds - 1) ** 0.5 * statistics.pstdev([ratio(seed) for seed in range(seeds)]))


def _best_cases(chosen: Sequence[AcceptanceDemand]) -> list[AcceptanceCase]:
    by_scenario = {case.scenario: case for demand in chosen for case in demand.cases if case.policy == BEST}
    return list(by_scenario.values())


def ablate(
    rules: Sequence[AblationRule],
    quick: bool,
    only: str,
    seeds: int,
    processes: int,
    bar: Callable[..., Any] = count_bar,
) -> list[RuleWorth]:
    """Run all simulations with all rules and without each of ``rules``, and return what each rule is worth.

    With ``quick``, each rule is measured against the full criteria for which it was made, and against the quick
    criteria of all groups. Without ``quick``, each rule is measured against all full criteria. ``only`` restricts the
    criteria to those that contain this text.
    """
    chosen = {rule.name: _criteria(rule, quick, only) for rule in rules}
    jobs = _jobs(chosen, seeds)
    with bar(len(jobs), "runs") as done:
        results = in_processes(AblationJob.run, jobs, processes, done)
    runs: dict[str, dict[tuple[Any, str], list[SimulationResult]]] = {}
    for job, result in zip(jobs, results, strict=True):
        runs.setdefault(job.rule, {}).setdefault((job.run_of.scenario, job.run_of.policy), []).append(result)
    return [worth(rule, chosen[rule.name], runs[""], runs[rule.name]) for rule in rules]


def _criteria(rule: AblationRule, quick: bool, only: str) -> list[AcceptanceDemand]:
    wanted = [d for d in demands(quick) if only.lower() in f"{d.row} {d.what}".lower()]
    if quick and rule.made_for and not only:
        known = {(d.row, d.what, d.cases) for d in wanted}
        wanted += [d for d in demands() if rule.made_for in d.row and (d.row, d.what, d.cases) not in known]
    return wanted


def _jobs(chosen: Mapping[str, Sequence[AcceptanceDemand]], seeds: int) -> list[AblationJob]:
    jobs: dict[AblationJob, None] = {}
    for rule, criteria in chosen.items():
        for demand in criteria:
            for case in demand.cases:
                for seed in range(1, seeds + 1):
                    run_of = SimulationJob(case.scenario, case.policy, seed)
                    jobs[AblationJob("", run_of)] = None
                    if case.policy == BEST:
                        jobs[AblationJob(rule, run_of)] = None
    return list(jobs)


@click.command(
    "ablation",
    short_help="Measure what each rule of the policy 'best' is worth.",
    epilog="Example: lbdns-sim ablation --quick --rule overflow",
)
@click.option(
    "--quick", is_flag=True, help="For each rule, use the quick criteria and the full criteria made for that rule."
)
@click.option("--seeds", type=click.IntRange(2, 100), default=4, show_default=True, help="Number of runs of each case.")
@click.option("--processes", type=click.IntRange(1, 256), help="Number of parallel runs.  [default: one per processor]")
@click.option(
    "--rule", "names", type=click.Choice(list(RULES)), multiple=True, help="Measure only this rule. Repeatable."
)
@click.option("--only", metavar="TEXT", default="", help="Use only the criteria whose group or case contains TEXT.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option("--markdown", is_flag=True, help="Print the results as a Markdown table.")
def command(
    quick: bool, seeds: int, processes: int | None, names: Sequence[str], only: str, as_json: bool, markdown: bool
) -> None:
    """Measure what each rule of the policy 'best' is worth.

    One rule at a time is switched off, and all simulations of the acceptance criteria are repeated with the same random
    numbers. The figures are mean response times without the rule divided by those with the rule; a figure above 1 means
    that the rule helps. The errors are standard errors over the seeds.
    """
    if as_json and markdown:
        raise click.UsageError("--json and --markdown cannot be combined")
    rules = [rule for rule in RULES.values() if not names or rule.name in names]
    if not _criteria(rules[0], quick, only):
        raise click.UsageError(f"no criterion contains {only!r}; omit --only to use all criteria")
    began = time.monotonic()
    found = ablate(rules, quick, only, seeds, processes or usable_processors())
    if as_json:
        click.echo(json.dumps({"seeds": seeds, "rules": [one.as_json() for one in found]}, indent=1))
    elif markdown:
        click.echo(as_markdown(found))
    else:
        _show(found, seeds, time.monotonic() - began)


def _cells(found: RuleWorth) -> tuple[str, ...]:
    def text(effect: Effect) -> str:
        return f"{effect.ratio:.3f} ± {effect.error:.3f}"

    lost = f"{len(found.lost)} lost" + (f", {len(found.gained)} gained" if found.gained else "")
    return (
        found.rule.name,
        text(found.everywhere),
        f"{text(found.most[1])} ({found.most[0]})",
        f"{text(found.least[1])} ({found.least[0]})",
        lost,
    )


HEADS: Final = ("without", "all cases", "case with the greatest loss", "case with the greatest gain", "criteria")


def as_markdown(worths: Sequence[RuleWorth]) -> str:
    """Return the results as a Markdown table."""
    rows = [("rule", "purpose", *HEADS[1:]), ("---",) * (len(HEADS) + 1)]
    for one in worths:
        name, *figures = _cells(one)
        rows.append((f"`{name}`", one.rule.purpose, *figures))
    return "\n".join(f"| {' | '.join(row)} |".replace("| --- ", "|---").replace("--- |", "---|") for row in rows)


def _show(worths: Sequence[RuleWorth], seeds: int, seconds: float) -> None:
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    table = Table(*HEADS, title="mean response time without the rule / with it", title_justify="left")
    for one in worths:
        table.add_row(*_cells(one))
    console.print(table)
    console.print(f"{len(worths)} rules, {seeds} seeds, {seconds:.0f} s")

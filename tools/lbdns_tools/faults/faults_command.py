"""The command ``python -m lbdns_tools.faults``: its options, its output and its exit status."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from lbdns.command_line.command_group import SuggestingGroup
from lbdns.command_line.run_command import run as run_command
from lbdns_tools.faults import isolation, reliability_page
from lbdns_tools.faults.fault import Fault, FaultOutcome
from lbdns_tools.faults.fault_runner import run_fault
from lbdns_tools.faults.fault_table import select
from lbdns_tools.faults.soak import SoakOutcome, run_soak
from lbdns_tools.progress_bar import count_bar

MODULE: Final = "lbdns_tools.faults"
PROGRAM: Final = f"python -m {MODULE}"
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
JSON_OPTION: Final = click.option(
    "--json", "json_path", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Also write the outcomes to FILE as JSON.",
)  # fmt: skip
LOGS_OPTION: Final = click.option(
    "--logs", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Keep the programs' log files in DIR.",
)  # fmt: skip
SEED_OPTION: Final = click.option(
    "--seed", type=click.IntRange(0, 2**62), default=1, show_default=True, metavar="N", help="Seed for random numbers.",
)  # fmt: skip
EPILOG: Final = f"""\b
Examples:
  {PROGRAM} run --quick
  {PROGRAM} run --only process.worker-hung --only report
  {PROGRAM} run --update --json faults.json

For each fault, the command starts a separate farm on the loopback interface of a network namespace. Without
root privileges, faults that need mounts are skipped; with CI=true
in the environment, such faults fail. docs/reliability.md explains the table.

Exit status: 0 if all expectations held (with --retry, in the first or the second run of each fault), 1 if an
expectation failed, 2 on invalid arguments."""


@click.group(cls=SuggestingGroup, context_settings=CONTEXT)
def command() -> None:
    """Inject faults into a running lbdns under a steady DNS load."""


@command.command(context_settings=CONTEXT, epilog=EPILOG)
@click.option(
    "--only", multiple=True, metavar="NAME", help="Run only this fault or family; can be repeated; * is a wildcard."
)
@click.option("--quick", is_flag=True, help="Run only the quick faults, with shorter periods.")
@click.option("--list", "is_list", is_flag=True, help="List the faults with their expectations, without running any.")
@click.option("--update", is_flag=True, help="Write the table to docs/reliability.md.")
@click.option("--retry", is_flag=True, help="Run a fault again if it fails; a fault has failed if it fails twice.")
@JSON_OPTION
@LOGS_OPTION
@SEED_OPTION
def run(
    only: tuple[str, ...], quick: bool, is_list: bool, update: bool, retry: bool, json_path: Path | None,
    logs: Path | None, seed: int,
) -> int:  # fmt: skip
    """Run the faults one after another, and print the cost of each fault."""
    faults = select(only, quick)
    if is_list:
        for fault in faults:
            click.echo(f"{fault.name:28} {'quick' if fault.quick else '':6} {fault.done}: {fault.holds}")
        return 0
    _prepare(logs)
    attempts = _run_all(faults, seed, quick, logs, 2 if retry else 1)
    outcomes = [each[-1] for each in attempts]
    if json_path:
        json_path.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    if update:
        path = reliability_page.write(outcomes)
        click.echo(f"{path}: {len(outcomes)} rows written")
    for line in summary(attempts):
        click.echo(line)
    return 1 if any(outcome.verdict == "FAILED" for outcome in outcomes) else 0


@command.command(context_settings=CONTEXT)
@click.option("--minutes", type=click.FloatRange(1, 24 * 60), default=60, show_default=True, metavar="N",
              help="Duration.")  # fmt: skip
@click.option("--update", is_flag=True, help="Write the figures to docs/reliability.md.")
@JSON_OPTION
@LOGS_OPTION
@SEED_OPTION
def soak(minutes: float, update: bool, json_path: Path | None, logs: Path | None, seed: int) -> int:
    """Apply half the maximum load for a long time while random faults occur.

    Example: python -m lbdns_tools.faults soak --minutes 5
    """
    _prepare(logs)
    outcome = run_soak(60 * minutes, seed, click.echo, logs)
    click.echo("\n".join(soak_lines(outcome)))
    if json_path:
        json_path.write_text(json.dumps(asdict(outcome), indent=1) + "\n")
    if update:
        reliability_page.write_section("soak", "\n".join(soak_lines(outcome)))
    for problem in outcome.problems:
        click.echo(f"failed: {problem}", err=True)
    return 1 if outcome.problems else 0


def soak_lines(outcome: SoakOutcome) -> list[str]:
    """Return the figures of a soak test as the rows of a Markdown table."""
    memory, descriptors = outcome.memory_mb, outcome.descriptors
    events = ", ".join(f"{name} ({count} times)" for name, count in outcome.events.items())
    losses = ", ".join(f"{name}: {count}" for name, count in outcome.lost_by_event.items() if count)
    rows = {
        "duration": f"{outcome.seconds / 60:g} min",
        "seed of the schedule": str(outcome.seed),
        "highest query rate that the server answered": f"{outcome.maximum:g} queries/s",
        "query rate in the test": f"{outcome.rate:g} queries/s",
        "queries sent": str(outcome.sent),
        "injected faults": events or "none",
        "queries lost": str(outcome.lost),
        "queries still lost after one retry": str(outcome.lost_after_retry),
        "queries lost, by injected fault": losses or "none",
        "wrong answers": str(outcome.wrong),
        "queries lost or answered wrongly while no fault was active": str(outcome.unexplained),
        "median memory use in the first quarter": f"{memory[0]:g} MB",
        "median memory use in the last quarter": f"{memory[1]:g} MB",
        "highest memory use": f"{memory[2]:g} MB",
        "median number of descriptors in the first quarter": f"{descriptors[0]:g}",
        "median number of descriptors in the last quarter": f"{descriptors[1]:g}",
        "highest number of descriptors": str(descriptors[2]),
        "log lines": str(outcome.log_lines),
        "everything required held": "yes" if not outcome.problems else "**no**: " + "; ".join(outcome.problems),
    }
    cells = (f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows.items())
    return ["| | |", "|---|---|", *cells]


def _prepare(logs: Path | None) -> None:
    """Enter the namespaces, install the signal handler that stops all programs, and create the directory ``logs``."""
    if not isolation.enter(MODULE, sys.argv[1:]):
        click.echo(
            "network namespaces are not permitted here; the fault tests use this machine's loopback interface", err=True
        )
    signal.signal(signal.SIGTERM, _end)
    if logs:
        logs.mkdir(parents=True, exist_ok=True)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _run_all(
    faults: Sequence[Fault], seed: int, quick: bool, logs: Path | None, limit: int
) -> list[list[FaultOutcome]]:
    """Run each fault until it does not fail, at most ``limit`` times; return the outcomes of each fault's runs."""
    attempts: list[list[FaultOutcome]] = []
    with count_bar(len(faults), "faults") as advance:
        for fault in faults:
            attempts.append([])
            while len(attempts[-1]) < limit and all(earlier.verdict == "FAILED" for earlier in attempts[-1]):
                attempts[-1].append(outcome := run_fault(fault, seed, quick, logs))
                for line in lines(outcome):
                    click.echo(line)
            advance(fault.name)
    return attempts


def summary(attempts: Sequence[Sequence[FaultOutcome]]) -> list[str]:
    """Return the last lines of a run, which repeat all failures. An element of ``attempts`` is the runs of a fault."""
    verdicts = Counter(each[-1].verdict for each in attempts)
    found = []
    for outcome in (outcome for each in attempts for outcome in each if outcome.verdict == "FAILED"):
        found += [f"failed: {outcome.name}", *(f"    {problem}" for problem in outcome.problems)]
    found += [
        f"{each[-1].name} failed at first and held when it was repeated; find the cause"
        for each in attempts
        if len(each) > 1 and each[-1].verdict == "held"
    ]
    return [*found, f"{verdicts['held']} held, {verdicts['FAILED']} failed, {verdicts['skipped']} skipped"]


def lines(outcome: FaultOutcome) -> list[str]:
    """Return the lines that describe an outcome: the figures, and one line per problem."""
    if outcome.verdict == "skipped":
        return [f"{outcome.name:28} skipped: {'; '.join(outcome.problems)}"]
    recovery = "-" if outcome.recover_s is None else f"{outcome.recover_s:.1f} s"
    before, most, after = outcome.memory_mb
    figures = (
        f"{outcome.name:28} {outcome.verdict:7} lost {outcome.lost}/{outcome.lost_after_retry} of {outcome.sent}, "
        f"wrong {outcome.wrong}, recovered {recovery}, memory {before:.0f} to {after:.0f} MB (peak {most:.0f}), "
        f"p99 {outcome.p99_ms:g} ms, {outcome.seconds:g} s"
    )
    return [figures, *(f"    {problem}" for problem in outcome.problems)]


def main() -> None:
    """Run the command and exit with its status."""
    sys.exit(run_command(command, PROGRAM))

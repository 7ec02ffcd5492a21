"""Measures the CPU time of a plan for small and large pools, with and without the native extension.

The planner runs without a network, on an event loop whose clock counts CPU time and skips pauses. In each round, a part
of the members report, and the planner makes new plans. 'Longest turn' is the longest time in a round during which a
server would answer no query. All figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.measured_processes import BenchmarkError

TAKES: Final = "about 1 minute"
EXAMPLE: Final = "--members 1000 --fresh 0.5"
SIZES: Final = (10, 1000, 10_000)
PLANES: Final = ("native", "python")
TARGETS: Final = {"native": 10.0, "python": 100.0}  # ms for a plan of 10,000 members of which a tenth have reported
TURN_TARGET: Final = 2.0  # ms, for the longest turn of such a plan
TARGET_TEXT: Final = (
    "10,000 members: at most 10 ms with the native extension, and at most 100 ms without it; in turns of 2 ms"
)
LIMIT: Final = 300.0  # s for one size on one plane
#: Runs in a process of its own, because the extension cannot be unloaded
_PROGRAM: Final = """
import sys
if sys.argv[1] == "python":
    sys.modules["lbdns_native"] = None
from lbdns_tools.bench.planned_pool import main
main(sys.argv[1:])
"""


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    cases = {
        f"{members} members, {plane}": measure_case(plane, members, options.fresh, options.rounds, folder)
        for members in options.members
        for plane in PLANES
    }
    results: command.Results = {"fresh": options.fresh, "cases": cases}
    largest = {plane: cases.get(f"{SIZES[-1]} members, {plane}") for plane in PLANES}
    if all(largest.values()):
        results["met"] = all(
            case and case["plan_ms"] <= TARGETS[plane] and case["longest_turn_ms"] <= TURN_TARGET
            for plane, case in largest.items()
        )
    return results


def measure_case(plane: str, members: int, fresh: float, rounds: int, folder: Path) -> dict[str, float]:
    """Return the figures of a pool with this number of ``members``, as ``planned_pool`` prints them. Raises
    BenchmarkError."""
    command.progress(f"{members} members, {plane}")
    arguments = [sys.executable, "-c", _PROGRAM, plane, str(members), str(fresh), str(rounds), str(folder)]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=LIMIT, check=True)
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"{members} members, {plane}: not finished after {LIMIT:g} s") from None
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().rpartition("\n")[2]
        raise BenchmarkError(f"{members} members, {plane}: {last}") from None
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def tables(results: command.Results) -> command.Tables:
    rows = [
        (name, *(f"{case[key]:.2f}" for key in ("plan_ms", "longest_turn_ms", "worst_turn_ms")), f"{case['turns']:.0f}")
        for name, case in results["cases"].items()
    ]
    title = f"CPU time of a plan after reports from {results['fresh']:.0%} of the members"
    return [command.table(title, ("", "plan, ms", "longest turn, ms", "worst of all rounds, ms", "turns"), rows)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_numbers(parser, "--members", 1, 50_000, SIZES, "numbers of members in the pool")
    command.add_number(parser, "--fresh", float, 0.0001, 1, 0.1, "part of the members that report before each plan")
    command.add_number(parser, "--rounds", int, 1, 1000, 15, "number of plans that are measured")

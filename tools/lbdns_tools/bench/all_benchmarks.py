"""``python -m lbdns_tools.bench all``: runs a short form of each benchmark and compares the results with recorded
figures."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.benchmark_command import WIDTH, machine, table
from lbdns_tools.bench.benchmark_table import BENCHMARKS, Benchmark
from lbdns_tools.bench.measured_processes import running
from lbdns_tools.progress_bar import count_bar

LIMIT: Final = 14 * 60.0  # seconds for all benchmarks together
LIMIT_OF_ONE: Final = 120.0  # seconds
END: Final = 20.0  # seconds that a benchmark may take to stop its servers
BUSY: Final = 0.3  # load average of the machine above which figures mean little
HEAD: Final = "| benchmark | figure | value | unit | conditions | date |"
_CHECKOUT: Final = Path(__file__).parents[3]
HEADS: Final = ("benchmark", "figure", "now", "kept", "change", "")


@dataclass(frozen=True, slots=True)
class KeptFigure:
    """A row of the table in benchmarks.md: a benchmark's headline figure, measured on ``date`` (ISO 8601)."""

    benchmark: str
    figure: str
    value: float
    unit: str
    conditions: str
    date: str


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the benchmarks. Return 1 if a benchmark failed, or if a figure is WORSE and --fail is given."""
    parser = argparse.ArgumentParser(
        prog=program,
        description="Run short forms of all benchmarks in under 15 minutes and print their headline figures next to "
        "those in docs/benchmarks.md. WORSE marks a figure that has deteriorated by more than its usual variation.",
        epilog=f"example: {program} --only dns.peers scrape --update",
    )
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), metavar="NAME", help="run only these benchmarks")
    parser.add_argument("--update", action="store_true", help="write the figures to docs/benchmarks.md")
    parser.add_argument("--fail", action="store_true", help="exit with status 1 if any figure is marked WORSE")
    options = parser.parse_args(arguments)
    try:
        path = figures_file()
        kept = read_figures(path.read_text())
        load = machine()["load_before"]
        found, errors = run_all(options.only or list(BENCHMARKS))
        rows, worse = compared(found, kept)
        console = Console(width=None if sys.stdout.isatty() else WIDTH)
        console.print(table(f"short forms of the benchmarks; load average before the run: {load}", HEADS, rows))
        if load > BUSY:
            console.print("Other programs were running. Repeat the run on an idle machine before comparing figures.")
        for name, error in errors.items():
            print(f"{program}: {name}: {error}", file=sys.stderr)
        if options.update:
            path.write_text(with_figures(path.read_text(), found))
            print(f"{path}: {len(found)} figures written")
    except LbdnsError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_status
    return 1 if errors or (options.fail and worse) else 0


def run_all(names: Sequence[str]) -> tuple[list[KeptFigure], dict[str, str]]:
    """Run the benchmarks in ``names`` one after another.

    Return the headline figures of the benchmarks that succeeded and the errors of those that failed, keyed by name.
    """
    found: list[KeptFigure] = []
    errors: dict[str, str] = {}
    end = time.monotonic() + LIMIT
    with count_bar(len(names), "benchmarks") as advance:
        for name in names:
            try:
                left = end - time.monotonic()
                if left <= 0:
                    raise LbdnsError(f"not run: the earlier benchmarks used up the time limit of {LIMIT:g} s")
                found += headlines(name, BENCHMARKS[name], results_of(name, min(left, LIMIT_OF_ONE)))
            except LbdnsError as error:
                errors[name] = str(error)
            advance(name)
    return found, errors


def results_of(name: str, seconds: float) -> dict[str, Any]:
    """Run the short form of a benchmark in a separate process and return the results. Raises LbdnsError."""
    with tempfile.TemporaryDirectory(prefix="lbdns-bench-") as folder:
        path = Path(folder, "results.json")
        command = [sys.executable, "-m", "lbdns_tools.bench", name, *BENCHMARKS[name].short, "--json", str(path)]
        with running(name, command, None, Path(folder, "log"), patience=END) as benchmark:
            benchmark.output(seconds)
        results: dict[str, Any] = json.loads(path.read_text())
        return results


def headlines(name: str, benchmark: Benchmark, results: dict[str, Any]) -> list[KeptFigure]:
    """Return the headline figures from a benchmark's results. Raises LbdnsError if a figure is missing."""
    python = ".".join(platform.python_version_tuple()[:2])
    where = f"{results['cores']} cores, {platform.machine()}, Python {python}"
    conditions = " ".join((*benchmark.short, "on" if benchmark.short else "", where)).strip()
    today = datetime.date.today().isoformat()
    try:
        return [
            KeptFigure(name, line.name, float(f"{line.value_in(results):.4g}"), line.unit, conditions, today)
            for line in benchmark.headlines
        ]
    except (KeyError, TypeError) as error:
        raise LbdnsError(f"the figure {error} is missing from the results") from None


def compared(
    found: Sequence[KeptFigure], kept: dict[tuple[str, str], KeptFigure]
) -> tuple[list[tuple[str, ...]], bool]:
    """Return the table rows, and whether any figure is worse than the one recorded under the same conditions."""
    rows: list[tuple[str, ...]] = []
    any_worse = False
    for figure in found:
        last = kept.get((figure.benchmark, figure.figure))
        before, change, mark = "", "", "new"
        if last is not None:
            before = f"{last.value:g}"
            change = f"{100 * (figure.value / last.value - 1):+.0f} %" if last.value else ""
            line = next(h for h in BENCHMARKS[figure.benchmark].headlines if h.name == figure.figure)
            worse = line.is_worse(figure.value, last.value)
            same = last.conditions == figure.conditions
            mark = "" if same and not worse else "WORSE" if same else "other conditions"
            any_worse |= mark == "WORSE"
        rows.append((figure.benchmark, figure.figure, f"{figure.value:g} {figure.unit}", before, change, mark))
    return rows, any_worse


def figures_file(checkout: Path = _CHECKOUT) -> Path:
    """Return the path of benchmarks.md in docs/. Raises LbdnsError if the tools do not run from a checkout of the
    project."""
    found = sorted(checkout.glob("docs/**/benchmarks.md"))
    if not found:
        raise LbdnsError(f"{checkout / 'docs'} contains no benchmarks.md; run this command from a checkout")
    return found[0]


def read_figures(text: str) -> dict[tuple[str, str], KeptFigure]:
    """Return the recorded figures, keyed by benchmark and name. Raises LbdnsError if the table is missing or
    malformed."""
    lines = text.splitlines()
    begin, end = _table_rows(lines)
    figures = {}
    for line in lines[begin:end]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        try:
            benchmark, figure, value, *rest = cells
            unit, conditions, date = rest
            figures[benchmark, figure] = KeptFigure(benchmark, figure, float(value), unit, conditions, date)
        except ValueError:
            raise LbdnsError(
                f"benchmarks.md: each row must have six cells, with a number in the third cell: {line}"
            ) from None
    return figures


def with_figures(text: str, figures: Sequence[KeptFigure]) -> str:
    """Return a copy of ``text`` whose table contains ``figures``.

    Each figure replaces its row or, if the table has no such row, is added as a new row. All other rows remain
    unchanged. Raises LbdnsError.
    """
    lines = text.splitlines()
    begin, end = _table_rows(lines)
    kept = read_figures(text) | {(figure.benchmark, figure.figure): figure for figure in figures}
    rows = ((f"{cell:.10g}" if isinstance(cell, float) else cell for cell in astuple(row)) for row in kept.values())
    lines[begin:end] = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _table_rows(lines: Sequence[str]) -> tuple[int, int]:
    """Return the line indices of the table's first row and of the line after its last row."""
    try:
        begin = lines.index(HEAD) + 2
    except ValueError:
        raise LbdnsError(f"benchmarks.md: must contain a table that begins with {HEAD}") from None
    end = begin
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return begin, end

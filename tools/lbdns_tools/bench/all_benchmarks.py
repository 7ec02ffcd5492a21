"""``python -m lbdns_tools.bench all``: runs the short form of each benchmark beside the figures kept in the docs."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.benchmark_command import WIDTH, machine, table
from lbdns_tools.bench.benchmark_table import BENCHMARKS, Benchmark
from lbdns_tools.bench.kept_figures import KeptFigure, figures_file, read_figures, with_figures
from lbdns_tools.progress_bar import count_bar

LIMIT: Final = 14 * 60.0  # seconds for all benchmarks together
LIMIT_OF_ONE: Final = 120.0  # seconds
END: Final = 20.0  # seconds that a benchmark may take to end its servers
BUSY: Final = 0.3  # load of the machine above which its figures mean little
HEADS: Final = ("benchmark", "figure", "now", "kept", "change", "")


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the benchmarks and return the exit status: 1 if one failed or, with --fail, a figure got worse."""
    parser = argparse.ArgumentParser(
        prog=program,
        description="Run a short form of each benchmark, in under 15 minutes, and print its headline figures beside "
        "those kept in docs/benchmarks.md. WORSE marks a figure that got worse by more than the noise.",
        epilog=f"example: {program} --only dns.peers scrape --update",
    )
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), metavar="NAME", help="run these benchmarks only")
    parser.add_argument("--update", action="store_true", help="write the figures to docs/benchmarks.md")
    parser.add_argument("--fail", action="store_true", help="exit with status 1 if a figure got worse")
    options = parser.parse_args(arguments)
    try:
        path = figures_file()
        kept = read_figures(path.read_text())
        load = machine()["load_before"]
        found, errors = run_all(options.only or list(BENCHMARKS))
        rows, worse = compared(found, kept)
        console = Console(width=None if sys.stdout.isatty() else WIDTH)
        console.print(table(f"short forms; load before: {load}", HEADS, rows))
        if load > BUSY:
            console.print("Other programs were at work: repeat this on a quiet machine before you compare.")
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
    """Run benchmarks one after another; return their headline figures, and an error by name where one failed."""
    found: list[KeptFigure] = []
    errors: dict[str, str] = {}
    end = time.monotonic() + LIMIT
    with count_bar(len(names), "benchmarks") as advance:
        for name in names:
            try:
                left = end - time.monotonic()
                if left <= 0:
                    raise LbdnsError(f"not run: the others took {LIMIT:g} s")
                found += headlines(name, BENCHMARKS[name], results_of(name, min(left, LIMIT_OF_ONE)))
            except LbdnsError as error:
                errors[name] = str(error)
            advance(name)
    return found, errors


def results_of(name: str, seconds: float) -> dict[str, Any]:
    """Run the short form of a benchmark in a process of its own and return its results. Raises LbdnsError."""
    with tempfile.TemporaryDirectory(prefix="lbdns-bench-") as folder:
        path = Path(folder, "results.json")
        command = [sys.executable, "-m", "lbdns_tools.bench", name, *BENCHMARKS[name].short, "--json", str(path)]
        with _process(command, Path(folder, "log")) as process:
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                raise LbdnsError(f"did not end within {seconds:.0f} s") from None
        if status:
            log = Path(folder, "log").read_text(errors="replace").strip()
            raise LbdnsError(f"exit status {status}: {log[-500:]}")
        results: dict[str, Any] = json.loads(path.read_text())
        return results


@contextlib.contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a benchmark with its output in ``log``; the benchmark and its servers have ended afterwards."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def headlines(name: str, benchmark: Benchmark, results: dict[str, Any]) -> list[KeptFigure]:
    """Return the headline figures in the results of a benchmark. Raises LbdnsError if one is missing."""
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
        raise LbdnsError(f"its results have no figure at {error}") from None


def compared(
    found: Sequence[KeptFigure], kept: dict[tuple[str, str], KeptFigure]
) -> tuple[list[tuple[str, ...]], bool]:
    """Return the rows of the table, and whether any figure got worse.

    Figures that were kept under other conditions are shown but not judged.
    """
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

"""The command line that all benchmarks share: options, progress output, temporary directory, JSON file and exit
status."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from rich.console import Console
from rich.table import Table

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.measured_processes import BenchmarkError, pin_to_core

PLANES: Final = ("auto", "python", "native")
Results = dict[str, Any]
Tables = Iterable[Table]
WIDTH: Final = 120  # columns of a table that is not printed on a terminal
_INTERRUPTED: Final = 130
_CONDITIONS: Final = ("load_before", "cores", "python")


class BenchmarkModule(Protocol):
    """The attributes and functions that a benchmark module must define. The module's docstring is the description that
    --help prints."""

    __doc__: str | None
    #: How long the benchmark runs with its default options
    TAKES: str
    #: Options of the example that --help shows
    EXAMPLE: str
    #: The target in words, if the results say whether it is ``met``
    TARGET_TEXT: str

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the benchmark's own options to ``parser``."""

    def measure(self, options: argparse.Namespace, folder: Path) -> Results:
        """Run the benchmark and return JSON-serializable results. Raises LbdnsError. ``folder`` is a temporary
        directory that is removed after the run.

        In the results, ``met`` states whether the run met the benchmark's target, and ``note`` is a comment on the
        results.
        """

    def tables(self, results: Results) -> Tables:
        """Return tables that show the results of ``measure``."""


def run_benchmark(program: str, module: BenchmarkModule, arguments: Sequence[str]) -> int:
    """Run one benchmark and return the exit status. ``program`` is the command that --help shows before the options."""
    options = _parser(program, module).parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)  # raises an exception, so that every child process is ended before exit
    try:
        if options.json:
            _require_writable(options.json)
        if "load_core" in options:
            pin_to_core(options.load_core)
        with tempfile.TemporaryDirectory(prefix="lbdns-bench-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o755)  # servers that have dropped their privileges read files in this folder
            results = machine() | module.measure(options, Path(folder))
    except LbdnsError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED
    _show(module, results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if options.fail and not results.get("met", True) else 0


def _parser(program: str, module: BenchmarkModule) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description=module.__doc__,
        epilog=f"With its default options, the benchmark takes {module.TAKES}.\nexample: {program} {module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to FILE as JSON")
    parser.add_argument("--fail", action="store_true", help="exit with status 1 if the benchmark misses its target")
    return parser


def _show(module: BenchmarkModule, results: Results) -> None:
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH)
    for found in module.tables(results):
        console.print(found)
    load, cores, python = (results[name] for name in _CONDITIONS)
    note = f"; {results['note']}" if results.get("note") else ""
    console.print(f"load average before the run: {load} on {cores} cores, Python {python}{note}")
    if "met" in results:
        console.print(f"target ({module.TARGET_TEXT}): {'met' if results['met'] else 'MISSED'}")


def add_core_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server-core", type=int, default=1, metavar="N", help="CPU core on which the server runs (default: 1)"
    )
    parser.add_argument(
        "--load-core", type=int, default=0, metavar="N", help="CPU core on which everything else runs (default: 0)"
    )


def add_dns_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all benchmarks of the DNS server share."""
    add_core_options(parser)
    parser.add_argument(
        "--plane", choices=PLANES, default="auto", help="plane that answers queries (see the key 'plane' in [server])"
    )


def add_number(
    parser: argparse.ArgumentParser, name: str, kind: type, least: float, most: float, default: float, text: str
) -> None:
    """Add an option that takes a number from ``least`` to ``most``."""
    about = f"{text} ({least:g} to {most:g}, default: {default:g})"
    read = _number_reader(kind, least, most)
    parser.add_argument(name, type=read, default=kind(default), metavar="N", help=about)


def add_numbers(
    parser: argparse.ArgumentParser, name: str, least: int, most: int, default: Sequence[int], text: str
) -> None:
    """Add an option that takes one or several whole numbers from ``least`` to ``most``."""
    about = f"{text} ({least} to {most}, default: {' '.join(map(str, default))})"
    read = _number_reader(int, least, most)
    parser.add_argument(name, type=read, nargs="+", default=list(default), metavar="N", help=about)


def _number_reader(kind: type, least: float, most: float) -> Callable[[str], Any]:
    def read(value: str) -> Any:
        number = kind(value)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"must be between {least:g} and {most:g}, not {value}")
        return number

    return read


def _require_writable(path: Path) -> None:
    """Raise BenchmarkError if ``path`` is not writable.

    The command calls this function before the benchmark runs.
    """
    try:
        path.open("a").close()
    except OSError as error:
        raise BenchmarkError(f"--json {path}: cannot write the file: {error.strerror}") from None


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def machine() -> Results:
    """Return the conditions of a benchmark run: the load average, the number of cores, and the Python version.

    A load average well above 0 before the run means that other programs were running.
    """
    return {"load_before": round(os.getloadavg()[0], 2), "cores": os.cpu_count(), "python": platform.python_version()}


def progress(text: str) -> None:
    """Print ``text`` on standard error to show progress, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def rounds(count: int) -> Iterator[int]:
    """Yield the number of each round, and print it to show progress."""
    for number in range(count):
        progress(f"round {number + 1} of {count}")
        yield number


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median ratio of ``ours`` to ``theirs`` over all rounds in which ``theirs`` is not 0."""
    found = [a / b for a, b in zip(ours, theirs, strict=True) if b]
    return round(statistics.median(found), 3) if found else 0.0


def medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure across all rounds."""
    return {name: round(statistics.median(one[name] for one in rounds), 3) for name in rounds[0]}


def table(title: str, columns: Iterable[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table whose first column is left-aligned and whose other columns are right-aligned."""
    made = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number else "left")
    for row in rows:
        made.add_row(*map(str, row))
    return made


def side_by_side(title: str, servers: dict[str, Results]) -> Table:
    """Return a table with one column per server and one row per figure."""
    names = next(iter(servers.values()))
    rows = [(name.replace("_", " "), *(found.get(name, "") for found in servers.values())) for name in names]
    return table(title, ("", *servers), rows)


def figures(title: str, results: Results) -> Table:
    """Return a table with one row per figure, excluding the conditions, the note and ``met``.

    If a result is a dict, each figure in it has its own row.
    """
    rows: list[tuple[str, object]] = []
    for name, found in results.items():
        if isinstance(found, dict):
            rows += [(f"{name}: {key}", figure) for key, figure in found.items()]
        elif name not in (*_CONDITIONS, "note", "met"):
            rows.append((name.replace("_", " "), found))
    return table(title, ("", ""), rows)

"""What the commands of this folder share: options, a table, a JSON file, and an end that leaves nothing behind."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from lbdns.errors import LbdnsError
from lbdns_tools.bench.collector_cost import bounded
from lbdns_tools.bench.dns.processes import BenchError, stay_on

PLANES: Final = ("auto", "python", "native")
Figures = dict[str, Any]
WIDTH: Final = 120  # columns where there is no terminal to ask
_INTERRUPTED: Final = 130


def parser(module: str, doc: str | None, takes: str, example: str = "") -> argparse.ArgumentParser:
    """A parser with the options that all commands have. ``takes`` says how long it runs by default."""
    made = argparse.ArgumentParser(
        prog=f"python -m lbdns_tools.bench.dns.{module}",
        description=doc,
        epilog=f"Takes {takes} by default.\nexample: python -m lbdns_tools.bench.dns.{module} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--server-core", type=int, default=1, metavar="N", help="core the server runs on (default: 1)")
    made.add_argument("--load-core", type=int, default=0, metavar="N", help="core of everything else (default: 0)")
    made.add_argument("--plane", choices=PLANES, default="auto", help="who answers in lbdns ([server] plane)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    return made


def bound(
    made: argparse.ArgumentParser, name: str, kind: type, least: float, most: float, default: float, text: str
) -> None:
    """Add an option that takes a number within bounds."""
    about = f"{text} ({least:g} to {most:g}, default: {default:g})"
    made.add_argument(name, type=bounded(kind, least, most), default=kind(default), metavar="N", help=about)


def run(
    made: argparse.ArgumentParser,
    measure: Callable[[argparse.Namespace, Path], Figures],
    show: Callable[[Figures, Console], None],
) -> int:
    """Measure within a folder that is removed afterwards; the exit status."""
    options = made.parse_args()
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH)
    signal.signal(signal.SIGTERM, _end)  # an exception: every child is ended on the way out
    try:
        if options.json:
            _demand_writable(options.json)
        stay_on(options.load_core)
        with tempfile.TemporaryDirectory(prefix="lbdns-bench-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o755)  # a server that drops its privileges reads in it
            figures = machine() | measure(options, Path(folder))
    except LbdnsError as error:
        print(f"{made.prog}: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED
    show(figures, console)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _demand_writable(path: Path) -> None:
    """Before minutes are spent on what would be lost. Raises BenchError."""
    try:
        path.open("a").close()
    except OSError as error:
        raise BenchError(f"--json {path}: can't be written: {error.strerror}") from None


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def machine() -> Figures:
    """What the figures were taken on. A load above 0 before the begin says that others were at work too."""
    return {"load_before": round(os.getloadavg()[0], 2), "cores": os.cpu_count(), "python": platform.python_version()}


def progress(text: str) -> None:
    """Tell a person at a terminal how far it is."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over the rounds of ours / theirs. Rounds without a figure don't count."""
    found = [a / b for a, b in zip(ours, theirs, strict=True) if b]
    return round(statistics.median(found), 3) if found else 0.0


def table(title: str, columns: Iterable[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table with its first column to the left and the others to the right."""
    made = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number else "left")
    for row in rows:
        made.add_row(*map(str, row))
    return made


def noted(figures: Figures) -> str:
    load, cores, python = (figures[name] for name in ("load_before", "cores", "python"))
    return "; ".join(filter(None, (f"load before: {load} on {cores} cores, Python {python}", figures.get("note"))))

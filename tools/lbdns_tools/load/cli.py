"""lbdns-load: arguments -> what to run -> figures and exit status, nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from lbdns import __version__
from lbdns.cli import run
from lbdns.errors import ConfigError, LbdnsError
from lbdns_tools import pictures
from lbdns_tools.load import output, plots, table
from lbdns_tools.load.capacity import Searched, search
from lbdns_tools.load.crew import LoadPlace
from lbdns_tools.load.measure import InterruptedRunError, Measuring
from lbdns_tools.load.options import load_options
from lbdns_tools.load.output import Row
from lbdns_tools.load.progress import shown
from lbdns_tools.load.said import STDOUT, check
from lbdns_tools.load.study import Planned, make_study
from lbdns_tools.load.thresholds import judge

WIDE: Final = 100  # columns of a table that doesn't go to a terminal
EPILOG: Final = """\b
Examples:
  lbdns-load http://127.0.0.1:8080/ --clients 20..100/10 --seconds 60 --repeat 3
  lbdns-load http://best.hobbit:8080/ --resolver 127.0.0.1:5300 --clients 20
  lbdns-load --files mixed --base http://best.hobbit:8080 --resolver 127.0.0.1:5300 --resolve webstone
  lbdns-load http://127.0.0.1:8080/ --rate 400..2400/400 --requests 30000 --csv rates.csv --plot rates.png
  lbdns-load http://127.0.0.1:8080/ --ramp 10..200 --seconds 5min --fail-if 'p99>200ms' --fail-if 'error_percent>1'
  lbdns-load http://127.0.0.1:8080/ --trace day.csv --min 10 --max 200 --seconds 10min
  lbdns-load --phases phases.toml --json -
  lbdns-load http://127.0.0.1:8080/ --search rate --connections 1000,10000 --range 100..5000

A rate's latency counts from the moment at which a request was meant to start: a stall is not hidden. Failed requests
are in all figures. docs/load.md explains options, files and columns.

Exit status: 0 well, 1 if a threshold is broken or no request went well, 2 for bad arguments."""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@load_options
@click.version_option(__version__, prog_name="lbdns-load")
def command(**said: Any) -> int:
    """Put load on web servers, find out what they carry, and who got how much of it.

    Clients that wait for each response (--clients), or requests that come whether or not others have been answered
    (--rate, --ramp, --trace), or several of both (--phases), at one URL, many, or WebStone's files.
    """
    check(said)
    _check_files(said)
    study = make_study(said) if said["search"] is None else ()
    rows: list[Row] = []
    found: Searched | None = None
    why: Exception | None = None  # it ended early; what was measured by then is told nevertheless
    try:
        with shown(not said["quiet"] and sys.stderr.isatty()) as on_progress:
            measuring = Measuring(said["processes"], (LoadPlace(sources=said["sources"]),), on_progress)
            if said["search"] is None:
                _measure(study, said["repeat"], measuring, rows)
            else:
                found = search(said, measuring.measure, rows)
    except InterruptedRunError as error:
        rows.append(error.row)
        why = click.Abort()
    except KeyboardInterrupt:
        why = click.Abort()
    except LbdnsError as error:
        why = error
    failures = _failures(said, rows)
    if rows:
        _tell(said, rows, failures, found)
    if why is not None:
        raise why
    measured = found.successful if found else any(row.figures.ok for row in rows)
    return 0 if measured and not failures else 1


def _measure(study: Sequence[Planned], repetitions: int, measuring: Measuring, rows: list[Row]) -> None:
    for planned in study:
        for repetition in range(1, repetitions + 1):
            rows.append(measuring.measure(planned, repetition))  # noqa: PERF401 - what was measured stays if one fails


def _failures(said: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    """Which thresholds are broken at which point, and in which repetition."""
    several = len(output.by_point(rows)) > 1
    return [
        f"{_where(row, several, said['repeat'] > 1)}{why}"
        for row in rows
        for why in judge(said["fail_if"], row.figures)
    ]


def _where(row: Row, several: bool, repeated: bool) -> str:
    point = row.point
    words = []
    if several:
        words.append(f"{point.rate_per_s or 0:g}/s" if point.clients is None else f"{point.clients} clients")
    if repeated:
        words.append(f"repetition {row.repetition}")
    return f"{', '.join(words)}: " if words else ""


def _check_files(said: Mapping[str, Any]) -> None:
    """Raises ConfigError before anything is measured if what is found couldn't be kept."""
    for name in ("csv", "json"):
        path = said[name]
        if path is not None and path != STDOUT and (path.is_dir() or not path.resolve().parent.is_dir()):
            what = "is a folder" if path.is_dir() else f"there is no folder {path.resolve().parent}"
            raise ConfigError(f"--{name}: {path}: {what}")
    if said["plot"] is not None:
        pictures.check_file(said["plot"])


def _tell(said: Mapping[str, Any], rows: Sequence[Row], failures: Sequence[str], found: Searched | None) -> None:
    edges = found.edges if found else ()
    if said["csv"] is not None:
        _write("--csv", said["csv"], output.frontier_csv(edges) if edges else output.as_csv(rows))
    if said["json"] is not None:
        document = output.as_json(rows, failures, edges)
        if found:
            document |= {"criteria": str(found.criteria), "searches": found.as_json()}
        _write("--json", said["json"], json.dumps(document, indent=2) + "\n")
    if said["plot"] is not None:
        plots.draw(said["plot"], rows, edges)
    if not said["quiet"] and STDOUT not in (said["csv"], said["json"]):
        _show(said, rows, found)
    for failure in failures:
        click.echo(f"failed: {failure}", err=True)


def _show(said: Mapping[str, Any], rows: Sequence[Row], found: Searched | None) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    if said["search"] is None:
        table.show(rows, console)
    elif found is not None:
        console.print(f"failing: {found.criteria}", markup=False)
        if found.edges:
            table.show_frontier(found.edges, console)
        for what, each in found.found:
            table.show_found(each, what, console)
    if said["plot"] is not None:
        console.print(f"picture: {said['plot']}", markup=False)


def _write(option: str, path: Path, text: str) -> None:
    if path == STDOUT:
        click.echo(text, nl=False)
        return
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(f"{option}: {path}: can't be written: {error.strerror}") from None


def main() -> None:
    """The entry point of the program ``lbdns-load``."""
    sys.exit(run(command, "lbdns-load"))

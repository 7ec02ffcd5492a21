"""The program ``lbdns-load``, which runs a study or a search, and prints and saves the results."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from lbdns.command_line.run_command import run
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools import __version__, plot_files
from lbdns_tools.load import load_plots, result_rows, result_table
from lbdns_tools.load.load_options import STDOUT, check_options, load_options
from lbdns_tools.load.load_process_pool import InterruptedRunError, LoadPlace, RunMeasurement
from lbdns_tools.load.load_study import make_study
from lbdns_tools.load.result_rows import ResultRow
from lbdns_tools.load.search_command import SearchOutcome, run_search
from lbdns_tools.progress_bar import share_bar

WIDE: Final = 100  # columns of a table when standard output is not a terminal
EPILOG: Final = """\b
Examples:
  lbdns-load http://127.0.0.1:8080/ --clients 20..100/10 --seconds 60 --repeat 3
  lbdns-load http://best.hobbit:8080/ --resolver 127.0.0.1:5300 --clients 20
  lbdns-load --files mixed --base http://best.hobbit:8080 --resolver 127.0.0.1:5300 --resolve webstone
  lbdns-load http://127.0.0.1:8080/ --rate 400..2400/400 --requests 30000 --csv rates.csv --plot rates.png
  lbdns-load http://127.0.0.1:8080/ --ramp 10..200 --seconds 5min --fail-if 'p99>200ms' --fail-if 'error_percent>1'
  lbdns-load http://127.0.0.1:8080/ --trace day.csv --min 10 --max 200 --seconds 10min
  lbdns-load --access-log access.log.gz --base http://best.hobbit:8080 --min 10 --max 200 --seconds 10min
  lbdns-load --phases phases.toml --json -
  lbdns-load http://127.0.0.1:8080/ --search rate --connections 1000,10000 --range 100..5000

With --rate, --ramp, --trace or --access-log, latency is measured from the time at which a request was due. Latency
therefore includes any delay before the request was sent. All statistics include failed requests.
docs/reference/load.md explains the options, files and columns.

Exit status: 0 on success, 1 if a threshold is violated or no request succeeded, 2 if arguments are invalid."""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@load_options
@click.version_option(__version__, prog_name="lbdns-load", message="%(prog)s %(version)s")
def command(**options: Any) -> int:
    """Send requests to web servers, and measure how many they handle and how the load is distributed.

    Clients wait for each response (--clients), or send requests at a given rate regardless of response times (--rate,
    --ramp, --trace, --access-log). Use --phases to combine several loads. The clients request one URL, a list of URLs,
    WebStone's set of files, or the URLs in an access log.
    """
    check_options(options)
    _check_files(options)
    study = make_study(options, _note) if options["search"] is None else ()
    rows: list[ResultRow] = []
    found: SearchOutcome | None = None
    why: Exception | None = None  # why the study ended early; results up to then are still printed
    try:
        with share_bar(not options["quiet"] and sys.stderr.isatty()) as show:
            place = LoadPlace(sources=options["sources"])
            measuring = RunMeasurement(options["processes"], (place,), lambda p: show(p.label, p.share, str(p)))
            for planned in study:
                for repetition in range(1, options["repeat"] + 1):
                    rows.append(measuring.measure(planned, repetition))  # noqa: PERF401 - rows stay if a run fails
            if options["search"] is not None:
                found = run_search(options, measuring.measure, rows)
    except InterruptedRunError as error:
        rows.append(error.row)
        why = click.Abort()
    except KeyboardInterrupt:
        why = click.Abort()
    except LbdnsError as error:
        why = error
    failures = _failures(options, rows)
    if rows:
        _publish(options, rows, failures, found)
    if why is not None:
        raise why
    measured = found.successful if found else any(row.figures.ok for row in rows)
    return 0 if measured and not failures else 1


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


def _failures(options: Mapping[str, Any], rows: Sequence[ResultRow]) -> list[str]:
    """Return one line per violated threshold. If there are several loads or repetitions, each line begins with the load
    or repetition to which it applies."""
    several = len(result_rows.by_point(rows)) > 1
    failures = []
    for row in rows:
        where = []
        if several:
            point = row.point
            where.append(f"{point.rate_per_s or 0:g}/s" if point.clients is None else f"{point.clients} clients")
        if options["repeat"] > 1:
            where.append(f"repetition {row.repetition}")
        start = f"{', '.join(where)}: " if where else ""
        failures += [f"{start}{why}" for threshold in options["fail_if"] if (why := threshold.broken(row.figures))]
    return failures


def _check_files(options: Mapping[str, Any]) -> None:
    """Raise ConfigError if a result file cannot be written. Call this before the first run."""
    for name in ("csv", "json"):
        path = options[name]
        if path is not None and path != STDOUT and (path.is_dir() or not path.resolve().parent.is_dir()):
            what = (
                "is a directory, not a file"
                if path.is_dir()
                else f"the directory {path.resolve().parent} does not exist"
            )
            raise ConfigError(f"--{name}: {path}: {what}")
    if options["plot"] is not None:
        plot_files.check_file(options["plot"])


def _publish(
    options: Mapping[str, Any], rows: Sequence[ResultRow], failures: Sequence[str], found: SearchOutcome | None
) -> None:
    edges = found.edges if found else ()
    if options["csv"] is not None:
        _write("--csv", options["csv"], result_rows.frontier_csv(edges) if edges else result_rows.as_csv(rows))
    if options["json"] is not None:
        document = result_rows.as_json(rows, failures, edges)
        if found:
            document |= {"criteria": str(found.criteria), "searches": found.as_json()}
        _write("--json", options["json"], json.dumps(document, indent=2) + "\n")
    if options["plot"] is not None:
        load_plots.draw(options["plot"], rows, edges)
    if not options["quiet"] and STDOUT not in (options["csv"], options["json"]):
        _show(options, rows, found)
    for failure in failures:
        click.echo(f"failed: {failure}", err=True)


def _show(options: Mapping[str, Any], rows: Sequence[ResultRow], found: SearchOutcome | None) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    if options["search"] is None:
        result_table.show(rows, console)
    elif found is not None:
        console.print(f"failing: {found.criteria}", markup=False)
        if found.edges:
            lines = [([str(edge.connections)], edge.found) for edge in found.edges]
            result_table.show_searches(("connections", "highest rate/s"), lines, console)
        for what, each in found.found:
            result_table.show_searches((what,), [((), each)], console)
    if options["plot"] is not None:
        console.print(f"plot: {options['plot']}", markup=False)


def _write(option: str, path: Path, text: str) -> None:
    if path == STDOUT:
        click.echo(text, nl=False)
        return
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(f"{option}: {path}: cannot write the file: {error.strerror}") from None


def main() -> None:
    """Run the program ``lbdns-load`` and exit with its status."""
    sys.exit(run(command, "lbdns-load"))

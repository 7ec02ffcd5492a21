"""Defines the options of ``lbdns-load``, and checks that they can be combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import click

from lbdns.command_line.common_options import ParsedValue
from lbdns_tools.command_options import SECONDS, SEED_OPTION, add_options, repeat_option
from lbdns_tools.load import load_option_parsers as parsers
from lbdns_tools.load.failure_thresholds import parse_threshold
from lbdns_tools.load.load_option_parsers import MAX_CLIENTS, MAX_RATE
from lbdns_tools.load.load_plan import SPACINGS, parse_resolve_rule
from lbdns_tools.load.load_study import LOADS, OPEN_LOADS, SEARCHES
from lbdns_tools.load.phases_file import TARGETS
from lbdns_tools.load.request_mix import FILE_SETS, ORDERS

STDOUT: Final = Path("-")  # a file name that stands for standard output
COUNTS: Final = ParsedValue(parsers.parse_counts, "N[..M/STEP],...")
RATES: Final = ParsedValue(parsers.parse_rates, "R[..S/STEP],...")
RAMP: Final = ParsedValue(parsers.parse_ramp, "R..S[..T]")
RESOLVE: Final = ParsedValue(parse_resolve_rule, "request|connection|every:5s|webstone[:5s]|1999[:20s]|ttl|once|system")


def _file(name: str, metavar: str, help: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.Path(path_type=Path), metavar=metavar, help=help)


def _percent(name: str, lowest: float, help: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.FloatRange(lowest, 100), metavar="PERCENT", help=help)


def _rate(name: str, parameter: str, is_open: bool, help: str) -> Callable[[Any], Any]:
    return click.option(name, parameter, type=click.FloatRange(0, MAX_RATE, min_open=is_open), metavar="R", help=help)


OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    # Targets
    click.argument("url", required=False),
    _file("--urls", "FILE", "Request the URLs in FILE, which lists one URL per line, optionally followed by a weight."),
    click.option("--files", type=click.Choice(FILE_SETS), help="Request WebStone's files with WebStone's weights."),
    click.option("--base", metavar="URL", help="Base URL of the files that --files or --access-log requests."),
    # Name resolution
    click.option(
        "--resolver",
        type=ParsedValue(parsers.parse_resolver, "HOST:PORT"),
        help="DNS server for lookups. [default: the system's resolver]",
    ),
    click.option(
        "--resolve",
        type=RESOLVE,
        help="When clients look up names. [default: connection with --resolver, otherwise system]",
    ),
    # The load: clients that wait for responses, or a rate of requests
    click.option(
        "--clients",
        type=COUNTS,
        help="Number of clients. Each client waits for a response before it sends its next request. [default: 20]",
    ),
    click.option("--think", type=SECONDS, help="Pause between a response and the client's next request. [default: 0]"),
    click.option("--rate", type=RATES, help="Number of requests to send per second, regardless of response times."),
    click.option(
        "--ramp",
        type=RAMP,
        help="Change the rate linearly over --seconds, for example from 10 to 200 requests/s (10..200).",
    ),
    _file(
        "--trace", "FILE.csv", "Read rates from a column of FILE.csv. Each rate applies for an equal part of --seconds."
    ),
    click.option(
        "--trace-column", metavar="NAME|N", help="Column to read, required if the --trace file has several columns."
    ),
    _file(
        "--access-log",
        "FILE",
        "Replay a web server's access log (common or combined log format, optionally gzipped). Without --seconds, the "
        "run lasts as long as the log.",
    ),
    click.option(
        "--url-order",
        type=click.Choice(ORDERS),
        help="Order in which the URLs in the --access-log are requested: as logged, each URL equally often in turn, or "
        "at random, as often as logged. [default: log]",
    ),
    _rate(
        "--min", "min_rate", False, "Scale the trace or log to a minimum rate of R requests/s. [default: 0 with --max]"
    ),
    _rate("--max", "max_rate", True, "Scale the trace or log to a maximum rate of R requests/s."),
    _file("--phases", "FILE.toml", "Read the phases of the load from FILE.toml. Phases may overlap."),
    click.option(
        "--spacing",
        type=click.Choice(SPACINGS),
        help="Spacing of the requests: even intervals, or random intervals (Poisson process). [default: even]",
    ),
    # How long, how often
    click.option(
        "--seconds", type=SECONDS, help="Duration of a run, excluding the warm-up. [default: 10 without --requests]"
    ),
    click.option("--requests", type=click.IntRange(1), metavar="N", help="End a run after N requests."),
    click.option(
        "--warm-up",
        type=SECONDS,
        help="Duration of the warm-up before each run. Requests during the warm-up are not counted. [default: 0]",
    ),
    repeat_option("Number of runs for each load."),
    SEED_OPTION,
    # Connections and processes
    _file("--ca-file", "FILE", "Trust the certificates in FILE (PEM) instead of the system's, for https:// URLs."),
    click.option("--insecure", is_flag=True, help="Do not verify the certificates of https:// URLs."),
    click.option("--keep-alive", is_flag=True, help="Reuse connections for several requests (HTTP keep-alive)."),
    click.option(
        "--timeout",
        type=SECONDS,
        default="10",
        show_default=True,
        help="Time after which a request without a complete response counts as failed.",
    ),
    click.option(
        "--max-connections",
        type=click.IntRange(1, MAX_CLIENTS),
        metavar="N",
        help="Maximum number of open connections across all processes. [default: no limit]",
    ),
    click.option(
        "--source",
        "sources",
        type=ParsedValue(parsers.parse_source, "ADDRESS"),
        multiple=True,
        help="Local address from which clients connect. Each address provides about 28,000 ports. Repeatable.",
    ),
    click.option(
        "--processes",
        type=ParsedValue(parsers.parse_processes, "N|auto"),
        default="auto",
        show_default=True,
        help="Number of processes that send requests ('auto': one per processor).",
    ),
    # Capacity searches
    click.option(
        "--search",
        type=click.Choice(SEARCHES),
        help="Find the highest rate for each number of --connections, the highest number of connections for each "
        "--rate, or the highest number of clients.",
    ),
    click.option(
        "--range", "span", type=ParsedValue(parsers.parse_span, "LOW..HIGH"), help="Range that --search covers."
    ),
    click.option(
        "--connections",
        type=COUNTS,
        help="Numbers of connections for --search rate, which finds the highest rate for each number.",
    ),
    _percent("--accuracy", 0.1, "Tolerance of the --search result, in percent. [default: 5]"),
    _percent("--max-errors", 0, "Percentage of failed requests above which a --search trial fails. [default: 1]"),
    click.option(
        "--max-latency",
        type=ParsedValue(parsers.parse_latency, "p99:200ms"),
        help="Latency above which a --search trial fails. [default: no limit]",
    ),
    _percent("--min-achieved", 0, "Percentage of the requested rate that a --search trial must achieve. [default: 95]"),
    # Results
    click.option("--label", metavar="TEXT", help="Label for the runs in result files and plots."),
    _file("--csv", "FILE", "Write one CSV row per load and repetition to FILE (- for standard output)."),
    _file("--json", "FILE", "Write all statistics to FILE as JSON (- for standard output)."),
    _file("--plot", "FILE", "Save a plot of the results to FILE, whose name must end in .png, .svg or .pdf."),
    click.option(
        "--fail-if",
        multiple=True,
        type=ParsedValue(parse_threshold, "FIGURE>LIMIT"),
        help="Exit with status 1 if a condition such as 'p99>200ms' holds. Repeatable.",
    ),
    click.option("--quiet", is_flag=True, help="Do not print tables or progress."),
)

load_options: Final = add_options(OPTIONS)

#: option -> options of which it requires at least one
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "files": ("base",), "base": ("files", "access_log"), "access_log": ("base",), "url_order": ("access_log",),
    "ramp": ("seconds",), "trace": ("seconds",), "trace_column": ("trace",),
    "min_rate": ("max_rate",), "max_rate": ("trace", "access_log"), "spacing": (*OPEN_LOADS, "search"),
    "search": ("span",), "span": ("search",), "connections": ("search",), "accuracy": ("search",),
    "max_errors": ("search",), "max_latency": ("search",), "min_achieved": ("search",),
}  # fmt: skip
#: option -> the options that it excludes
EXCLUDES: Final[Mapping[str, tuple[str, ...]]] = {
    "phases": ("seconds", "requests", "warm_up"),
    "think": (*OPEN_LOADS, "phases"),
    "search": ("ramp", "trace", "access_log", "phases", "clients", "fail_if", "repeat"),
    "access_log": TARGETS,
    "insecure": ("ca_file",),
}
#: Kind of search -> the options that it requires, and those that it excludes because it sets them itself
SEARCH_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {"rate": ("connections",), "connections": ("rate",), "clients": ()}
SEARCH_EXCLUDES: Final[Mapping[str, tuple[str, ...]]] = {
    "rate": ("rate", "requests", "seconds", "think"),
    "connections": ("connections", "requests", "seconds", "think"),
    "clients": ("connections", "rate", "requests", "spacing"),
}


def check_options(options: Mapping[str, Any]) -> None:
    """Raise click.UsageError if a required option is missing or if two options cannot be combined.

    ``options`` maps the options' parameter names to their values.
    """
    options = {name: value for name, value in options.items() if value and (name, value) != ("repeat", 1)}
    if not any(name in options for name in (*TARGETS, "access_log", "phases")):
        raise click.UsageError("a target is required: specify a URL, --urls FILE, or --files html --base URL")
    excluded = [(name, other) for name, others in EXCLUDES.items() for other in others]
    for one, other in (*combinations(TARGETS, 2), *combinations(LOADS, 2), *excluded):
        if one in options and other in options:
            raise click.UsageError(f"{option_name(one)} and {option_name(other)} cannot be combined")
    for name, others in NEEDS.items():
        if name in options and not any(other in options for other in others):
            raise click.UsageError(f"{option_name(name)} requires {' or '.join(map(option_name, others))}")
    kind = options.get("search", "")
    for name in SEARCH_NEEDS.get(kind, ()):
        if name not in options:
            raise click.UsageError(f"--search {kind} requires {option_name(name)}")
    for name in SEARCH_EXCLUDES.get(kind, ()):
        if name in options:
            raise click.UsageError(f"--search {kind} and {option_name(name)} cannot be combined")
    _check_values(options)


def _check_values(options: Mapping[str, Any]) -> None:
    if "warm_up" in options and "requests" in options and not any(name in options for name in OPEN_LOADS):
        raise click.UsageError(
            "--warm-up and --requests can be combined only with --rate, --ramp, --trace or --access-log; use --seconds "
            "instead of --requests"
        )
    low, high = options.get("min_rate", 0.0), options.get("max_rate", MAX_RATE)
    if low > high:
        raise click.UsageError(f"--min must not exceed --max: {low:g} is more than {high:g}")
    if options.get("csv") == STDOUT and options.get("json") == STDOUT:
        raise click.UsageError("--csv - and --json - cannot both write to standard output")


def option_name(parameter: str) -> str:
    """Return the command-line name of the option that sets a parameter."""
    short = {"url": "URL", "min_rate": "--min", "max_rate": "--max", "span": "--range", "sources": "--source"}
    return short.get(parameter, f"--{parameter.replace('_', '-')}")

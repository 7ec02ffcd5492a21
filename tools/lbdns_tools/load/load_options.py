"""The options of ``lbdns-load``: names, types and help texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lbdns_tools.command_options import SECONDS, SEED_OPTION, ParsedValue, add_options, repeat_option
from lbdns_tools.load.failure_thresholds import parse_threshold
from lbdns_tools.load.load_option_parsers import (
    parse_latency,
    parse_processes,
    parse_resolver,
    parse_source,
    parse_span,
)
from lbdns_tools.load.load_plan import SPACINGS, parse_resolve_rule
from lbdns_tools.load.load_study import SEARCHES
from lbdns_tools.load.request_mix import FILE_SETS
from lbdns_tools.load.sweep_parsers import MAX_CLIENTS, MAX_RATE, parse_counts, parse_ramp, parse_rates

F = TypeVar("F", bound=Callable[..., Any])


def _file(name: str, parameter: str, metavar: str, help: str) -> Callable[[F], F]:
    return click.option(name, parameter, type=click.Path(path_type=Path), metavar=metavar, help=help)


RATE: Final = click.FloatRange(0, MAX_RATE, min_open=True)

OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    # Targets
    click.argument("url", required=False),
    _file("--urls", "urls", "FILE", "Request the URLs in FILE: one per line, optionally followed by its weight."),
    click.option("--files", type=click.Choice(FILE_SETS), help="Request WebStone's set of files, with its weights."),
    click.option("--base", metavar="URL", help="Where the files of --files are."),
    # Name resolution
    click.option(
        "--resolver",
        type=ParsedValue(parse_resolver, "HOST:PORT"),
        help="Send DNS queries to this server. [default: the system's resolver]",
    ),
    click.option(
        "--resolve",
        type=ParsedValue(parse_resolve_rule, "request|connection|every:5s|webstone[:5s]|ttl|once|system"),
        help="When clients look up the name. [default: connection; without --resolver: system, once at the start]",
    ),
    # The load: clients that wait for responses, or a rate of requests
    click.option(
        "--clients",
        type=ParsedValue(parse_counts, "N[..M/STEP],..."),
        help="Number of clients, each of which waits for its response. [default: 20]",
    ),
    click.option(
        "--think", type=SECONDS, help="Pause of each client between a response and its next request. [default: 0]"
    ),
    click.option(
        "--rate",
        type=ParsedValue(parse_rates, "R[..S/STEP],..."),
        help="Requests/s, sent whether or not earlier ones have been answered.",
    ),
    click.option(
        "--ramp",
        type=ParsedValue(parse_ramp, "R..S[..T]"),
        help="A rate that changes linearly over --seconds, such as 10..200.",
    ),
    _file("--trace", "trace", "FILE.csv", "Read rates from a column of FILE.csv and spread them over --seconds."),
    click.option("--trace-column", metavar="NAME|N", help="The column of --trace, if the file has several."),
    click.option(
        "--min",
        "min_rate",
        type=click.FloatRange(0, MAX_RATE),
        metavar="R",
        help="Scale the lowest rate of --trace to R requests/s. [default: 0, with --max]",
    ),
    click.option(
        "--max", "max_rate", type=RATE, metavar="R", help="Scale the highest rate of --trace to R requests/s."
    ),
    _file("--phases", "phases", "FILE.toml", "Several loads, which may overlap, from a file."),
    click.option(
        "--spacing", type=click.Choice(SPACINGS), help="Intervals between requests at a rate. [default: even]"
    ),
    # How long, how often
    click.option(
        "--seconds", type=SECONDS, help="Length of a run, without the warm-up. [default: 10, without --requests]"
    ),
    click.option("--requests", type=click.IntRange(1), metavar="N", help="End a run after N requests."),
    click.option("--warm-up", type=SECONDS, help="Load before each run that is not counted. [default: 0]"),
    repeat_option("Number of runs at each point."),
    SEED_OPTION,
    # Connections and processes
    click.option("--keep-alive", is_flag=True, help="Send many requests over one connection."),
    click.option(
        "--timeout", type=SECONDS, default="10", show_default=True, help="Count a request as failed after this time."
    ),
    click.option(
        "--max-connections",
        type=click.IntRange(1, MAX_CLIENTS),
        metavar="N",
        help="Limit of open connections, over all processes. [default: no limit]",
    ),
    click.option(
        "--source",
        "sources",
        type=ParsedValue(parse_source, "ADDRESS"),
        multiple=True,
        help="Connect from this local address, which has about 28,000 ports. May be given several times.",
    ),
    click.option(
        "--processes",
        type=ParsedValue(parse_processes, "N|auto"),
        default="auto",
        show_default=True,
        help="Number of sending processes. auto: one per processor.",
    ),
    # Capacity searches
    click.option(
        "--search",
        type=click.Choice(SEARCHES),
        help="Search for the highest rate at each number of --connections, the most connections at a --rate, or "
        "the most clients.",
    ),
    click.option("--range", "span", type=ParsedValue(parse_span, "LOW..HIGH"), help="Range that --search covers."),
    click.option(
        "--connections",
        type=ParsedValue(parse_counts, "N[..M/STEP],..."),
        help="Numbers of connections for --search rate; a trial makes that many.",
    ),
    click.option(
        "--accuracy",
        type=click.FloatRange(0.1, 100),
        metavar="PERCENT",
        help="Accuracy of the result of --search. [default: 5]",
    ),
    click.option(
        "--max-errors",
        type=click.FloatRange(0, 100),
        metavar="PERCENT",
        help="A trial of --search fails above this share of errors. [default: 1]",
    ),
    click.option(
        "--max-latency",
        type=ParsedValue(parse_latency, "p99:200ms"),
        help="A trial of --search fails above this latency. [default: no limit]",
    ),
    click.option(
        "--min-achieved",
        type=click.FloatRange(0, 100),
        metavar="PERCENT",
        help="A trial of --search fails if less of the rate is answered. [default: 95]",
    ),
    # Results
    click.option("--label", metavar="TEXT", help="Name of the runs in files and pictures."),
    _file("--csv", "csv", "FILE", "Write one row per point and repetition; - is standard output."),
    _file("--json", "json", "FILE", "Write all statistics in detail; - is standard output."),
    _file("--plot", "plot", "FILE", "Draw a picture: .png, .svg or .pdf."),
    click.option(
        "--fail-if",
        "fail_if",
        multiple=True,
        type=ParsedValue(parse_threshold, "FIGURE>LIMIT"),
        help="Exit with status 1 if this is so, such as 'p99>200ms'. May be given several times.",
    ),
    click.option("--quiet", is_flag=True, help="Print no table and no progress."),
)


load_options: Final = add_options(OPTIONS)

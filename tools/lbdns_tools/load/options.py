"""The options of ``lbdns-load``: names, types, help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lbdns_tools.load.mix import FILE_SETS
from lbdns_tools.load.plan import SPACINGS, parse_resolve
from lbdns_tools.load.study import SEARCHES
from lbdns_tools.load.sweep import MAX_CLIENTS, MAX_RATE, parse_counts, parse_ramp, parse_rates
from lbdns_tools.load.thresholds import parse_threshold
from lbdns_tools.load.words import (
    parse_latency,
    parse_processes,
    parse_resolver,
    parse_seconds,
    parse_source,
    parse_span,
)

F = TypeVar("F", bound=Callable[..., Any])

MAX_REPETITIONS: Final = 1000


class Read(click.ParamType[Any]):
    """An option's value as ``parse`` reads it; its ValueError is the error."""

    def __init__(self, parse: Callable[[str], Any], metavar: str) -> None:
        self._parse = parse
        self.name = metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.name


def _file(name: str, parameter: str, metavar: str, help: str) -> Callable[[F], F]:
    return click.option(name, parameter, type=click.Path(path_type=Path), metavar=metavar, help=help)


RATE: Final = click.FloatRange(0, MAX_RATE, min_open=True)
SECONDS_TYPE: Final = Read(parse_seconds, "S")

OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    # What is asked for
    click.argument("url", required=False),
    _file("--urls", "urls", "FILE", "A URL a line, and its weight behind it."),
    click.option("--files", type=click.Choice(FILE_SETS), help="WebStone's files, with its weights."),
    click.option("--base", metavar="URL", help="Beside --files: where they are."),
    # Where that is
    click.option(
        "--resolver", type=Read(parse_resolver, "HOST:PORT"), help="Which DNS server is asked. [default: the system's]"
    ),
    click.option(
        "--resolve",
        type=Read(parse_resolve, "request|connection|every:5s|webstone[:5s]|ttl|once|system"),
        help="How often a client looks a name up. [default: connection; without --resolver: system, at the beginning]",
    ),
    # How much of it: clients that wait, or requests that come anyway
    click.option(
        "--clients", type=Read(parse_counts, "N[..M/STEP],..."), help="That each wait for a response. [default: 20]"
    ),
    click.option(
        "--think", type=SECONDS_TYPE, help="Beside --clients: from a response to the next request. [default: 0]"
    ),
    click.option(
        "--rate", type=Read(parse_rates, "R[..S/STEP],..."), help="Requests/s, whether or not others are answered."
    ),
    click.option(
        "--ramp", type=Read(parse_ramp, "R..S[..T]"), help="A rate that rises or falls evenly over --seconds."
    ),
    _file("--trace", "trace", "FILE.csv", "Rates from a column, spread over --seconds."),
    click.option("--trace-column", metavar="NAME|N", help="Which one, where there are several."),
    click.option(
        "--min",
        "min_rate",
        type=click.FloatRange(0, MAX_RATE),
        metavar="R",
        help="What the lowest rate of --trace becomes. [default: 0, with --max]",
    ),
    click.option("--max", "max_rate", type=RATE, metavar="R", help="What the highest rate of --trace becomes."),
    _file("--phases", "phases", "FILE.toml", "Several loads, which may overlap."),
    click.option("--spacing", type=click.Choice(SPACINGS), help="Of requests at a rate. [default: even]"),
    # How long, how often
    click.option(
        "--seconds",
        type=SECONDS_TYPE,
        help="How long a run takes, the warm-up apart. [default: 10, without --requests]",
    ),
    click.option("--requests", type=click.IntRange(1), metavar="N", help="How many a run has, at most."),
    click.option("--warm-up", type=SECONDS_TYPE, help="Of load before it that doesn't count. [default: 0]"),
    click.option(
        "--repeat",
        type=click.IntRange(1, MAX_REPETITIONS),
        default=1,
        show_default=True,
        metavar="N",
        help="Runs of each point.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**62),
        default=1,
        show_default=True,
        metavar="N",
        help="Of chance; each repetition adds 1.",
    ),
    # How it is sent
    click.option("--keep-alive", is_flag=True, help="Many requests over one connection."),
    click.option(
        "--timeout", type=SECONDS_TYPE, default="10", show_default=True, help="After which a request has failed."
    ),
    click.option(
        "--max-connections",
        type=click.IntRange(1, MAX_CLIENTS),
        metavar="N",
        help="Open at a time, over all processes. [default: no limit]",
    ),
    click.option(
        "--source",
        "sources",
        type=Read(parse_source, "ADDRESS"),
        multiple=True,
        help="Send from it: each has some 28,000 ports. May be given several times.",
    ),
    click.option(
        "--processes",
        type=Read(parse_processes, "N|auto"),
        default="auto",
        show_default=True,
        help="That send. auto: one a processor.",
    ),
    # Looking for a limit
    click.option(
        "--search",
        type=click.Choice(SEARCHES),
        help="The highest rate at so many --connections, the most connections at a --rate, or the most clients.",
    ),
    click.option("--range", "span", type=Read(parse_span, "LOW..HIGH"), help="Beside --search: where to look."),
    click.option(
        "--connections",
        type=Read(parse_counts, "N[..M/STEP],..."),
        help="Beside --search rate: how many are made in a trial.",
    ),
    click.option(
        "--accuracy", type=click.FloatRange(0.1, 100), metavar="PERCENT", help="Beside --search. [default: 5]"
    ),
    click.option(
        "--max-errors",
        type=click.FloatRange(0, 100),
        metavar="PERCENT",
        help="Beside --search: more has failed. [default: 1]",
    ),
    click.option(
        "--max-latency",
        type=Read(parse_latency, "p99:200ms"),
        help="Beside --search: more has failed. [default: any will do]",
    ),
    click.option(
        "--min-achieved",
        type=click.FloatRange(0, 100),
        metavar="PERCENT",
        help="Beside --search: of the rate; less has failed. [default: 95]",
    ),
    # What comes of it
    click.option("--label", metavar="TEXT", help="What the runs are called in files and pictures."),
    _file("--csv", "csv", "FILE", "One row a point and repetition; - is standard output."),
    _file("--json", "json", "FILE", "All figures, in detail; - is standard output."),
    _file("--plot", "plot", "FILE", "Draw a picture: .png, .svg or .pdf."),
    click.option(
        "--fail-if",
        "fail_if",
        multiple=True,
        type=Read(parse_threshold, "FIGURE>LIMIT"),
        help="Exit with 1 if so, such as 'p99>200ms'. May be given several times.",
    ),
    click.option("--quiet", is_flag=True, help="No table, no progress."),
)


def load_options(command: F) -> F:
    """All of them, in the order in which --help shows them."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command

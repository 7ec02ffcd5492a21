"""Defines the options of ``lbdns-sim``: names, types and help texts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from lbdns.command_line.common_options import ParsedValue
from lbdns.text.times import parse_time
from lbdns_tools.command_options import add_options
from lbdns_tools.sim import scenario_parsers as parsers
from lbdns_tools.sim.simulation_jobs import usable_processors
from lbdns_tools.sim.simulation_plots import KINDS

Option = Callable[[Any], Any]


def _option(names: str, metavar: str | None, type: click.ParamType[Any] | None, help: str, **more: Any) -> Option:
    """Return an option. ``names`` holds the option's name and, if different, the parameter's name."""
    return click.option(*names.split(), metavar=metavar, type=type, help=help, **more)


def _several(names: str, metavar: str, parse: Callable[[str], Any], help: str) -> Option:
    return _option(names, None, ParsedValue(parse, metavar), f"{help} May be given several times.", multiple=True)


def _list(names: str, metavar: str, parse: Callable[[str], Any], help: str) -> Option:
    return _option(names, None, ParsedValue(parse, metavar), help, default=())


MOMENT: Final = ParsedValue(lambda text: parse_time(text, time.time()), "T")
POSITIVE: Final = click.FloatRange(min=0, min_open=True, max=1e9)
PATH: Final = click.Path(path_type=Path)

OPTIONS: Final[tuple[Option, ...]] = (
    # Which farm
    _option(
        "--servers",
        "SPEC|FARM|FILE.toml",
        None,
        "Comma-separated servers, each [NAME=]SPEEDxCORES; or one of the farms T3, H10 and U10.",
    ),
    _option("--preset", "NAME|list", None, "Run a preset study; other options override its settings."),
    _option("--from from_url", "URL", None, "Simulate the farm of a running lbdns, estimated from its reports."),
    _option(
        "--replay",
        "FILE|history.db[:POOL]",
        PATH,
        "Replay a recording or a server's history to show how the policies would have answered.",
    ),
    _option("--begin", None, MOMENT, "Start of the period of the history to replay (same formats as --end)."),
    _option(
        "--end",
        None,
        MOMENT,
        "End of the period of the history to replay (Unix seconds, ISO 8601, or a time ago such as -10min).",
    ),
    _option("--record", "FILE", PATH, "Save the recording that --from makes to FILE."),
    _option("--pool", "NAME", None, "The pool that --from records, if the server has several pools."),
    _option("--from-seconds", "S", POSITIVE, "Number of seconds that --from records.", default=10.0, show_default=True),
    # Which requests
    _list(
        "--workload workloads",
        "html|cgi|mix|lognormal",
        parsers.parse_workloads,
        "Comma-separated distributions of request sizes. [default: mix]",
    ),
    _list(
        "--load loads",
        "SHARE,...",
        parsers.parse_loads,
        "Comma-separated loads, each a share of the farm's capacity. [default: 0.85]",
    ),
    _option("--rate", "PER_S", POSITIVE, "Request rate, used instead of --load."),
    _list(
        "--clients",
        "open|closed:N[:S]|caches:N[:S]",
        parsers.parse_clients_list,
        "open: Poisson arrivals. closed: N clients that look up every S s (0: before each request). caches: N "
        "resolvers that keep an answer for S s (default: 5 to 30). [default: open]",
    ),
    _several("--surge surges", "FACTOR@T-T2", parsers.parse_surge, "Multiply the request rate by FACTOR from T to T2."),
    # Which policies, and what they know
    _list(
        "--policy policies",
        "NAME,...",
        parsers.parse_policies,
        "Comma-separated policies to compare: those of lbdns, and 'oracle'. [default: best,round_robin,oracle]",
    ),
    _option("--interval", "S", click.FloatRange(0.01, 3600), "Report interval of the agents. [default: 1]"),
    _option(
        "--early",
        "REQUESTS",
        click.IntRange(1, 100_000),
        "Let an agent report early when its server's load has changed by this many requests. [default: never]",
    ),
    _several(
        "--alarm alarms", "CONDITION", parsers.parse_alarm, "Alarm condition of the agents, such as listen_queue>256."
    ),
    _option("--loss", "SHARE", click.FloatRange(0, 1), "Share of reports that are lost, such as 0.1. [default: 0]"),
    _option(
        "--dns-servers",
        "N",
        click.IntRange(1, parsers.MAX_DNS_SERVERS),
        "Number of independent DNS servers. [default: 1]",
    ),
    _option("--score", "thesis|FILE.toml[:NAME]", None, "A built-in score, or a file with [score.NAME] tables."),
    # What goes wrong
    _several(
        "--kill",
        "NAME@T[-T2]",
        parsers.parse_kill,
        "Host NAME dies at T (s since the start of the warm-up), and recovers at T2 if given.",
    ),
    _several(
        "--hang",
        "NAME@T[-T2]",
        parsers.parse_hang,
        "The web server on NAME dies at T, but the host's agent continues to report.",
    ),
    _several(
        "--other-work",
        "NAME:TASKS@T-T2",
        parsers.parse_other_work,
        "Between T and T2, add TASKS runnable tasks that do not belong to the web server.",
    ),
    # How long, how often, which output
    _option(
        "--seeds",
        "N",
        click.IntRange(1, 10_000),
        "Number of runs of each simulation, each with different random numbers. [default: 3]",
    ),
    _option("--duration", "S", click.FloatRange(1, 1e6), "Virtual time to measure after the warm-up. [default: 120]"),
    _option("--warm-up", "S", click.FloatRange(0, 1e6), "Virtual time before the measurement. [default: 20]"),
    _option(
        "--processes",
        "N",
        click.IntRange(1, 1024),
        "Number of parallel runs. [default: one per processor]",
        default=usable_processors,
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
    _option("--plot", "FILE", PATH, "Save a plot of the results to FILE (.png, .svg or .pdf)."),
    _option(
        "--plot-kind",
        None,
        click.Choice(KINDS),
        "Kind of picture. [default: response if there are several loads, otherwise herding]",
    ),
)
run_options: Final = add_options(OPTIONS)

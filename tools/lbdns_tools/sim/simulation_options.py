"""Defines the names, types and help texts of the options of ``lbdns-sim``."""

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
    """Return a click option. ``names`` contains the option's name and, if different, the parameter's name."""
    return click.option(*names.split(), metavar=metavar, type=type, help=help, **more)


def _several(names: str, metavar: str, parse: Callable[[str], Any], help: str) -> Option:
    return _option(names, None, ParsedValue(parse, metavar), f"{help} Repeatable.", multiple=True)


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
        "Comma-separated servers in the form [NAME=]SPEEDxCORES[/QUOTA], a named farm (T3, H10 or U10), or a farm "
        "file. QUOTA is a limit of CPU seconds per second, as of a control group.",
    ),
    _option("--preset", "NAME|list", None, "Run a preset study. Other options override the preset's settings."),
    _option("--from from_url", "URL", None, "Estimate the farm of a running lbdns from its reports, and simulate it."),
    _option(
        "--replay",
        "FILE|history.db[:POOL]",
        PATH,
        "Replay a recording or a history to show how policies would have answered the recorded queries.",
    ),
    _option("--begin", None, MOMENT, "Start of the period to replay from a history, in the same formats as --end."),
    _option(
        "--end",
        None,
        MOMENT,
        "End of the period to replay from a history: Unix seconds, ISO 8601, or a relative time such as -10min.",
    ),
    _option("--record", "FILE", PATH, "Save the recording made with --from to FILE."),
    _option(
        "--pool", "NAME", None, "Name of the pool to record with --from, required if the server has several pools."
    ),
    _option(
        "--from-seconds",
        "S",
        POSITIVE,
        "Duration of the recording made with --from, in seconds.",
        default=10.0,
        show_default=True,
    ),
    # Which requests
    _list(
        "--workload workloads",
        "html|cgi|mix|lognormal|page",
        parsers.parse_workloads,
        "Comma-separated workloads (distributions of request sizes). [default: mix]",
    ),
    _list(
        "--load loads",
        "SHARE,...",
        parsers.parse_loads,
        "Comma-separated loads, each a fraction of the farm's capacity. [default: 0.85]",
    ),
    _option("--rate", "PER_S", POSITIVE, "Number of requests per second, as an alternative to --load."),
    _list(
        "--clients",
        "open|closed:N[:S]|1999:N|caches:N[:S]",
        parsers.parse_clients_list,
        "open: requests arrive as a Poisson process. closed: N clients repeat their lookup every S seconds (5 by "
        "default), or before each request if S is 0. 1999: N clients repeat their lookup at intervals of N/2 to N "
        "seconds, as in 1999. caches: N resolvers cache answers for S seconds (5 to 30 by "
        "default). [default: open]",
    ),
    _several(
        "--surge surges",
        "[SITE:]FACTOR@T-T2",
        parsers.parse_surge,
        "Multiply the request rate, or that of the clients near SITE, by FACTOR from second T to second T2.",
    ),
    # Which policies, and what they know
    _list(
        "--policy policies",
        "NAME,...",
        parsers.parse_policies,
        "Comma-separated policies to compare; 'oracle' is also allowed. If the farm has sites, ':nearest' after a "
        "policy selects the nearest site whatever its load. If it has a backup, ':alone' never uses it. ':anywhere' "
        "disregards both. [default: best,round_robin,oracle]",
    ),
    _option("--interval", "S", click.FloatRange(0.01, 3600), "Report interval of the agents in seconds. [default: 1]"),
    _option(
        "--early",
        "REQUESTS",
        click.IntRange(1, 100_000),
        "Report early if the number of requests on a server, in progress or waiting, changes by REQUESTS. "
        "[default: never]",
    ),
    _several(
        "--alarm alarms",
        "CONDITION",
        parsers.parse_alarm,
        "Alarm condition of the agents, for example listen_queue>256.",
    ),
    _option(
        "--check",
        None,
        None,
        "Ping a host as soon as its report is overdue, as lbdns does for a pool with an ICMP check.",
        is_flag=True,
        default=None,
    ),
    _option(
        "--loss", "SHARE", click.FloatRange(0, 1), "Fraction of reports that are lost, for example 0.1. [default: 0]"
    ),
    _option(
        "--dns-servers",
        "N",
        click.IntRange(1, parsers.MAX_DNS_SERVERS),
        "Number of independent DNS servers. [default: 1]",
    ),
    _option(
        "--max-speed-gain",
        "FACTOR",
        click.FloatRange(1, 1000),
        "The pool's max_speed_gain, which should be higher if one server is far faster than all others. [default: 1.4]",
    ),
    _option("--score", "thesis|FILE.toml[:NAME]", None, "Built-in score, or a file with [score.NAME] tables."),
    # What goes wrong
    _several(
        "--kill",
        "NAME@T[-T2]",
        parsers.parse_kill,
        "Make the host or site NAME fail at T and, if T2 is specified, recover at T2 (seconds since the start of the "
        "warm-up).",
    ),
    _several(
        "--hang",
        "NAME@T[-T2]",
        parsers.parse_hang,
        "Make the web server on the host NAME fail at T, without affecting the host's agent.",
    ),
    _several(
        "--hide-status",
        "NAME@T[-T2]",
        parsers.parse_hide_status,
        "Make the server-status page on the host NAME unreadable from T on; the web server continues to work.",
    ),
    _several(
        "--slow slowdowns",
        "NAME:FACTOR@T-T2",
        parsers.parse_slow,
        "Run the cores of the host NAME at FACTOR times their speed from T to T2.",
    ),
    _several(
        "--other-work",
        "NAME:TASKS@T-T2",
        parsers.parse_other_work,
        "Run TASKS additional tasks on the host NAME from T to T2.",
    ),
    # How long, how often, which output
    _option(
        "--seeds",
        "N",
        click.IntRange(1, 10_000),
        "Number of runs of each simulation, each with different random numbers. [default: 3]",
    ),
    _option(
        "--duration",
        "S",
        click.FloatRange(1, 1e6),
        "Length of the measurement after the warm-up, in virtual seconds. [default: 120]",
    ),
    _option("--warm-up", "S", click.FloatRange(0, 1e6), "Length of the warm-up, in virtual seconds. [default: 20]"),
    _option(
        "--processes",
        "N",
        click.IntRange(1, 1024),
        "Number of parallel runs. [default: one per processor]",
        default=usable_processors,
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the results as JSON."),
    click.option("--csv", "as_csv", is_flag=True, help="Print the results as CSV."),
    _option("--plot", "FILE", PATH, "Save a plot of the results to FILE (.png, .svg or .pdf)."),
    _option(
        "--plot-kind",
        None,
        click.Choice(KINDS),
        "Kind of plot. [default: response for several loads, otherwise herding]",
    ),
)
run_options: Final = add_options(OPTIONS)

"""The options of ``lbdns-sim``: names, types and help texts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lbdns.command_line.common_options import ParsedValue
from lbdns.text.times import parse_time
from lbdns_tools.command_options import add_options
from lbdns_tools.sim import scenario_parsers
from lbdns_tools.sim.simulation_jobs import usable_processors
from lbdns_tools.sim.simulation_plots import KINDS

F = TypeVar("F", bound=Callable[..., Any])


def _several(text: str, parse: Callable[[str], Any], metavar: str, help: str) -> Callable[[F], F]:
    return click.option(
        text, type=ParsedValue(parse, metavar), multiple=True, help=f"{help} May be given several times."
    )


MOMENT: Final = ParsedValue(lambda text: parse_time(text, time.time()), "T")
POSITIVE: Final = click.FloatRange(min=0, min_open=True, max=1e9)

OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    # What farm
    click.option(
        "--servers", metavar="SPEC|FARM|FILE.toml", help="SPEEDxCORES,... or NAME=SPEEDxCORES,...; or T3, H10, U10."
    ),
    click.option("--preset", metavar="NAME|list", help="Run a preset study; other options override its settings."),
    click.option(
        "--from", "from_url", metavar="URL", help="Simulate the farm of a running lbdns, estimated from its reports."
    ),
    click.option(
        "--replay",
        metavar="FILE|history.db[:POOL]",
        type=click.Path(path_type=Path),
        help="Replay a recording or a server's history: what would policies have answered?",
    ),
    click.option("--begin", type=MOMENT, help="Start of the part of a history to replay."),
    click.option(
        "--end", type=MOMENT, help="End of that part. Times are Unix seconds, ISO 8601, or relative, such as -10min."
    ),
    click.option(
        "--record", metavar="FILE", type=click.Path(path_type=Path), help="Save the recording that --from makes."
    ),
    click.option("--pool", metavar="NAME", help="The pool for --from, if the server has several."),
    click.option(
        "--from-seconds", type=POSITIVE, default=10.0, show_default=True, metavar="S", help="How long --from records."
    ),
    # What comes
    click.option(
        "--workload",
        type=ParsedValue(scenario_parsers.parse_workloads, "html|cgi|mix|lognormal"),
        help="Sizes of requests; separate several with commas. [default: mix]",
    ),
    click.option(
        "--load",
        type=ParsedValue(scenario_parsers.parse_loads, "SHARE,..."),
        help="Load as a share of the farm's capacity; separate several with commas. [default: 0.85]",
    ),
    click.option("--rate", type=POSITIVE, metavar="PER_S", help="Requests/s instead of --load."),
    click.option(
        "--clients",
        type=ParsedValue(scenario_parsers.parse_clients_list, "open|closed:N[:S]|caches:N[:S]"),
        help="open: Poisson arrivals. closed: N clients that look up every S s (0: before each request). caches: N "
        "resolvers that keep an answer for S s (default: 5 to 30). [default: open]",
    ),
    _several(
        "--surge", scenario_parsers.parse_surge, "FACTOR@T-T2", "Multiply the request rate by FACTOR from T to T2."
    ),
    # Who chooses, from what
    click.option(
        "--policy",
        type=ParsedValue(scenario_parsers.parse_policies, "NAME,..."),
        help="Policies of lbdns, and oracle. [default: best,round_robin,oracle]",
    ),
    click.option(
        "--interval", type=click.FloatRange(0.01, 3600), metavar="S", help="Report interval of the agents. [default: 1]"
    ),
    click.option(
        "--early",
        type=click.IntRange(1, 100_000),
        metavar="REQUESTS",
        help="Let agents report early when their load has changed by this many requests. [default: never]",
    ),
    _several(
        "--alarm", scenario_parsers.parse_alarm, "CONDITION", "Alarm condition of the agents, such as listen_queue>256."
    ),
    click.option(
        "--loss", type=click.FloatRange(0, 1), metavar="SHARE", help="Share of the reports that are lost. [default: 0]"
    ),
    click.option(
        "--dns-servers",
        type=click.IntRange(1, scenario_parsers.MAX_DNS_SERVERS),
        metavar="N",
        help="Number of independent DNS servers. [default: 1]",
    ),
    click.option("--score", metavar="thesis|FILE.toml[:NAME]", help="The score; a file contains [score.NAME] tables."),
    # What goes wrong
    _several(
        "--kill",
        scenario_parsers.parse_kill,
        "NAME@T[-T2]",
        "The host dies at T s, counted from the start of the warm-up (and recovers at T2).",
    ),
    _several(
        "--hang",
        scenario_parsers.parse_hang,
        "NAME@T[-T2]",
        "The web server of NAME dies, but its agent continues to report.",
    ),
    _several(
        "--other-work",
        scenario_parsers.parse_other_work,
        "NAME:TASKS@T-T2",
        "Add runnable tasks of other work from T to T2.",
    ),
    # How long, how often, where to
    click.option(
        "--seeds",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help="Number of runs of each simulation, with different random numbers. [default: 3]",
    ),
    click.option(
        "--duration", type=click.FloatRange(1, 1e6), metavar="S", help="Measured virtual time. [default: 120]"
    ),
    click.option(
        "--warm-up",
        type=click.FloatRange(0, 1e6),
        metavar="S",
        help="Virtual time before it that is not measured. [default: 20]",
    ),
    click.option(
        "--processes",
        type=click.IntRange(1, 1024),
        default=usable_processors,
        metavar="N",
        help="Number of parallel runs. [default: one per processor]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
    click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw a picture: .png, .svg or .pdf."),
    click.option(
        "--plot-kind",
        type=click.Choice(KINDS),
        help="Kind of picture. [default: response with several loads, else herding]",
    ),
)


run_options: Final = add_options(OPTIONS)

"""The options of a run of ``lbdns-sim``: names, types, help."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lbdns.history.times import parse_time
from lbdns_tools.sim import spec
from lbdns_tools.sim.plots import KINDS
from lbdns_tools.sim.runner import usable_processors

F = TypeVar("F", bound=Callable[..., Any])


class Spec(click.ParamType[Any]):
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


def _several(text: str, parse: Callable[[str], Any], metavar: str, help: str) -> Callable[[F], F]:
    return click.option(text, type=Spec(parse, metavar), multiple=True, help=f"{help} May be given several times.")


MOMENT: Final = Spec(lambda text: parse_time(text, time.time()), "T")
POSITIVE: Final = click.FloatRange(min=0, min_open=True, max=1e9)

OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    # What farm
    click.option(
        "--servers", metavar="SPEC|FARM|FILE.toml", help="SPEEDxCORES,... or NAME=SPEEDxCORES,...; or T3, H10, U10."
    ),
    click.option("--preset", metavar="NAME|list", help="A ready study; other options override what it says."),
    click.option("--from", "from_url", metavar="URL", help="The farm of a running lbdns, estimated from its reports."),
    click.option(
        "--replay",
        metavar="FILE|history.db[:POOL]",
        type=click.Path(path_type=Path),
        help="What policies would have done then: a record, or the history of a server.",
    ),
    click.option("--begin", type=MOMENT, help="Beside --replay: from this time of the history on."),
    click.option("--end", type=MOMENT, help="Beside --replay: until then. Unix seconds, ISO 8601, or such as -10min."),
    click.option(
        "--record", metavar="FILE", type=click.Path(path_type=Path), help="Beside --from: keep what was heard."
    ),
    click.option("--pool", metavar="NAME", help="Beside --from: which pool, where there are several."),
    click.option(
        "--from-seconds", type=POSITIVE, default=10.0, show_default=True, metavar="S", help="How long --from listens."
    ),
    # What comes
    click.option(
        "--workload",
        type=Spec(spec.parse_workloads, "html|cgi|mix|lognormal"),
        help="Sizes of requests; several with commas. [default: mix]",
    ),
    click.option(
        "--load",
        type=Spec(spec.parse_loads, "SHARE,..."),
        help="Of the farm's capacity; several with commas. [default: 0.85]",
    ),
    click.option("--rate", type=POSITIVE, metavar="PER_S", help="Requests/s instead of --load."),
    click.option(
        "--clients",
        type=Spec(spec.parse_clients_list, "open|closed:N[:S]|caches:N[:S]"),
        help="Poisson arrivals; N clients that look up every S s (0: before each request); N caches that keep an "
        "answer for S s (else 5 to 30). [default: open]",
    ),
    _several("--surge", spec.parse_surge, "FACTOR@T-T2", "So many times as many requests for a while."),
    # Who chooses, from what
    click.option(
        "--policy",
        type=Spec(spec.parse_policies, "NAME,..."),
        help="Policies of lbdns, and oracle. [default: best,round_robin,oracle]",
    ),
    click.option(
        "--interval", type=click.FloatRange(0.01, 3600), metavar="S", help="Between an agent's reports. [default: 1]"
    ),
    click.option(
        "--early",
        type=click.IntRange(1, 100_000),
        metavar="REQUESTS",
        help="What if agents reported early when their load has changed so much? [default: never]",
    ),
    _several("--alarm", spec.parse_alarm, "CONDITION", "An agent gives an alarm, such as listen_queue>256."),
    click.option(
        "--loss", type=click.FloatRange(0, 1), metavar="SHARE", help="Of the reports that get lost. [default: 0]"
    ),
    click.option(
        "--dns-servers",
        type=click.IntRange(1, spec.MAX_DNS_SERVERS),
        metavar="N",
        help="That don't know of each other. [default: 1]",
    ),
    click.option("--score", metavar="thesis|FILE.toml[:NAME]", help="Which score; a file has [score.NAME] tables."),
    # What goes wrong
    _several("--kill", spec.parse_kill, "NAME@T[-T2]", "The host dies at T s, warm-up included (and is back at T2)."),
    _several("--hang", spec.parse_hang, "NAME@T[-T2]", "Its web server dies; the agent goes on reporting."),
    _several(
        "--other-work", spec.parse_other_work, "NAME:TASKS@T-T2", "More runnable tasks that are not the web server's."
    ),
    # How long, how often, where to
    click.option(
        "--seeds", type=click.IntRange(1, 10_000), metavar="N", help="Runs of each, with other chance. [default: 3]"
    ),
    click.option(
        "--duration", type=click.FloatRange(1, 1e6), metavar="S", help="Of virtual time that counts. [default: 120]"
    ),
    click.option("--warm-up", type=click.FloatRange(0, 1e6), metavar="S", help="Before it, not counted. [default: 20]"),
    click.option(
        "--processes",
        type=click.IntRange(1, 1024),
        default=usable_processors,
        metavar="N",
        help="At a time. [default: all processors]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
    click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw a picture: .png, .svg or .pdf."),
    click.option(
        "--plot-kind", type=click.Choice(KINDS), help="Which one. [default: response with several loads, else herding]"
    ),
)


def run_options(command: F) -> F:
    """All of them, in the order in which --help shows them."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command

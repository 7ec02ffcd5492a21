"""The options of ``lbdns-scaler replay``: the farm, its servers, its prices and the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from lbdns.command_line.common_options import ParsedValue
from lbdns.text.suggestions import nearest
from lbdns.text.times import parse_duration
from lbdns_tools.command_options import SECONDS, add_options
from lbdns_tools.scaler.policies.policy_table import POLICIES
from lbdns_tools.scaler.policies.revenue_model import (
    CORES,
    HOUR,
    INCOME,
    INSTANCE_TYPES,
    PRICE,
    SERVICE_TIME,
    LossModel,
    Prices,
)
from lbdns_tools.scaler.replay.replay_settings import BOOT_TIME, ReplaySettings

MOST_SERVERS: Final = 10_000
BILLING: Final = {"hour": HOUR, "second": 0.0}
LOSSES: Final = {"capacity": LossModel.CAPACITY, "erlang-b": LossModel.ERLANG_B}
POSITIVE: Final = click.FloatRange(0, min_open=True)


def parse_policies(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of policies. For ``all``, return an empty tuple. Raises ValueError."""
    names = () if text == "all" else tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in POLICIES:
            raise ValueError(f"unknown policy {name!r}{nearest(name, [*POLICIES, 'all'])}")
    return tuple(dict.fromkeys(names))


def _pause(text: str) -> float:
    return 0.0 if text.strip() == "0" else parse_duration(text)


PAUSE: Final = ParsedValue(_pause, "DURATION")
FILE: Final = click.Path(path_type=Path)


def _option(*names: str, help: str, **more: Any) -> Callable[[Any], Any]:
    return click.option(*names, help=help, show_default=more.get("default") is not None, **more)


replay_options = add_options(
    [
        _option(
            "--policy", "policies", type=ParsedValue(parse_policies, "NAME,..."), default="all",
            help="The policies to compare. all: every policy except those that need settings and have none in FILE.",
        ),
        _option("-c", "--config", type=FILE, metavar="FILE", help="Read policies' settings, [policy.NAME], from FILE."),
        _option("--access-log", is_flag=True, help="TRACE is an access log in the common or combined format."),
        _option("--warm-up", type=PAUSE, default="0", help="Count costs and requests only after this time."),
        _option("--minimum", type=click.IntRange(1, MOST_SERVERS), default=1, metavar="N", help="Fewest servers."),
        _option("--maximum", type=click.IntRange(1, MOST_SERVERS), default=20, metavar="N", help="Most servers."),
        _option(
            "--start", type=click.IntRange(1, MOST_SERVERS), metavar="N",
            help="Servers in service at the start of TRACE. By default, as many as the first rate needs.",
        ),
        _option(
            "--period", type=click.FloatRange(1, 3600), default=60.0, metavar="S",
            help="Seconds between two decisions.",
        ),
        _option("--boot-time", type=SECONDS, default=BOOT_TIME, help="Seconds until a new server is in service."),
        _option(
            "--drain-time", type=PAUSE, default="60s",
            help="How long a removed server is still paid for, while its last clients leave.",
        ),
        _option(
            "--service-time", type=POSITIVE, default=SERVICE_TIME, metavar="S",
            help="CPU time of a request, in seconds.",
        ),
        _option("--cores", type=POSITIVE, default=float(CORES), metavar="N", help="Processors of a server."),
        _option(
            "--instance-type", type=click.Choice(list(INSTANCE_TYPES)),
            help="Use the price and the speed of one of the 2012 study's instance types.",
        ),
        _option("--price", type=click.FloatRange(0), default=PRICE, metavar="P", help="Price of a server per hour."),
        _option("--income", type=click.FloatRange(0), default=INCOME, metavar="P", help="Income per served request."),
        _option(
            "--billing", type=click.Choice(list(BILLING)), default="hour",
            help="Whether servers are billed per started hour or per second.",
        ),
        _option(
            "--loss", type=click.Choice(list(LOSSES)), default="capacity",
            help="Which requests are lost: those beyond the capacity (equation 6.5 of the study), or those that find "
            "all servers busy (Erlang B).",
        ),
        _option("--plot", type=FILE, metavar="FILE", help="Plot demand and servers to a .png, .svg or .pdf file."),
        _option("--json", "as_json", is_flag=True, help="Print the results as JSON."),
    ]
)  # fmt: skip


def settings_of(options: Mapping[str, Any]) -> ReplaySettings:
    """Return the settings that the options describe. Raises click.UsageError if options contradict each other."""
    if options["minimum"] > options["maximum"]:
        raise click.UsageError(f"--minimum {options['minimum']} must not exceed --maximum {options['maximum']}")
    price, cores, service_time = options["price"], options["cores"], options["service_time"]
    if options["instance_type"]:
        kind = INSTANCE_TYPES[options["instance_type"]]
        price, service_time = kind.price, cores / kind.requests_per_s
    return ReplaySettings(
        prices=Prices(options["income"], price),
        billing_period=BILLING[options["billing"]],
        service_time=service_time,
        cores=cores,
        boot_time=options["boot_time"],
        drain_time=options["drain_time"],
        minimum=options["minimum"],
        maximum=options["maximum"],
        period=options["period"],
        loss=LOSSES[options["loss"]],
        start=options["start"] or 0,
        warm_up=options["warm_up"],
    )

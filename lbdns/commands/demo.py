"""``lbdns demo``: everything on the loopback, to try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lbdns.demo import ports
from lbdns.demo.farm_files import Plan
from lbdns.demo.run import run
from lbdns.log import LEVELS

_DEFAULT = Plan()
F = TypeVar("F", bound=Callable[..., Any])


def _port(flag: str, default: int, what: str) -> Callable[[F], F]:
    return click.option(
        flag,
        type=click.IntRange(1, 65535),
        default=default,
        show_default=True,
        metavar="PORT",
        help=f"Port of {what}.",
    )


@click.command(epilog="Exit status: 0 when it was ended, 1 when a port is taken or a part of it died.")
@click.option("--seconds", type=click.FloatRange(0), help="End by itself, so long after it was ready.")
@_port("--dns-port", _DEFAULT.dns_port, "the DNS server")
@_port("--report-port", _DEFAULT.report_port, "the collector, for reports")
@_port("--http-port", _DEFAULT.http_port, "the page, status and metrics")
@_port("--web-port", _DEFAULT.web_port, "the three web servers")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 60),
    default=_DEFAULT.interval,
    show_default=True,
    help="Seconds between the reports of an agent.",
)
@click.option(
    "--log-level", type=click.Choice(LEVELS), default=_DEFAULT.log_level, show_default=True, help="Of all its parts."
)
def demo(seconds: float | None, **options: Any) -> None:
    """Run everything on the loopback: DNS server, collector, three web servers, an agent for each.

    Needs no root, no configuration and no other machine; leaves nothing behind. Prints what to try.

    \b
    Examples:
      lbdns demo
      lbdns demo --seconds 60 --dns-port 5353
    """
    run(Plan(ipv6=ports.has_ipv6_loopback(), **options), seconds)

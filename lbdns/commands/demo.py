"""``lbdns demo``: run a complete farm on the loopback interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from lbdns.command_line.common_options import log_level_option
from lbdns.demo import ports
from lbdns.demo.farm_files import DemoPlan
from lbdns.demo.run import run

_DEFAULT = DemoPlan()


def _port(flag: str, default: int, what: str) -> Callable[[Any], Any]:
    kind = click.IntRange(1, 65535)
    return click.option(flag, type=kind, default=default, show_default=True, metavar="PORT", help=f"Port of {what}.")


@click.command(epilog="Exit status: 0 if stopped by Ctrl-C or --seconds, 1 if a port is in use or a demo process dies.")
@click.option("--seconds", type=click.FloatRange(0), help="Stop the demo this many seconds after the farm is ready.")
@_port("--dns-port", _DEFAULT.dns_port, "the DNS server")
@_port("--report-port", _DEFAULT.report_port, "the collector, for reports")
@_port("--http-port", _DEFAULT.http_port, "the live page, status and metrics")
@_port("--web-port", _DEFAULT.web_port, "the three web servers")
@click.option("--interval", type=click.FloatRange(0.1, 60), default=_DEFAULT.interval, show_default=True,
              help="Seconds between reports from each agent.")  # fmt: skip
@log_level_option(_DEFAULT.log_level, "Log level of all processes.")
def demo(seconds: float | None, **options: Any) -> None:
    """Run a complete farm on the loopback interface: a DNS server, a collector, and three web servers with agents.

    The demo requires no root access, configuration file or second machine, and leaves no files behind. When the farm is
    ready, the command prints other commands to try.

    \b
    Examples:
      lbdns demo
      lbdns demo --seconds 60 --dns-port 5353
    """
    run(DemoPlan(ipv6=ports.has_ipv6_loopback(), **options), seconds)

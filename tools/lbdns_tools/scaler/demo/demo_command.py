"""``lbdns-scaler demo``: a farm on the loopback interface whose size follows its load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from lbdns.command_line.common_options import log_level_option
from lbdns_tools.scaler.demo.demo_files import ScalerDemoPlan
from lbdns_tools.scaler.demo.run_demo import run

_DEFAULT = ScalerDemoPlan()


def _port(flag: str, default: int, what: str) -> Callable[[Any], Any]:
    kind = click.IntRange(1, 65535)
    return click.option(flag, type=kind, default=default, show_default=True, metavar="PORT", help=f"Port of {what}.")


@click.command(epilog="Exit status: 0 if the demo ends or Ctrl-C stops it, 1 if a port is in use or a process dies.")
@click.option("--seconds", type=click.FloatRange(60, 3600), default=_DEFAULT.seconds, show_default=True,
              help="Duration of the demo after the first server is in service.")  # fmt: skip
@click.option("--highest", type=click.FloatRange(5, 60), default=_DEFAULT.highest, show_default=True,
              help="Highest load in requests/s.")  # fmt: skip
@_port("--dns-port", _DEFAULT.dns_port, "the DNS server")
@_port("--report-port", _DEFAULT.report_port, "the collector, for reports")
@_port("--http-port", _DEFAULT.http_port, "the live page")
@_port("--scaler-port", _DEFAULT.scaler_port, "the scaler's status and metrics")
@_port("--web-port", _DEFAULT.web_port, "the web servers")
@log_level_option(_DEFAULT.log_level, "Log level of the DNS server and the scaler.")
def demo(**options: Any) -> None:
    """Run a farm that grows and shrinks with its load, on the loopback interface.

    The demo starts a DNS server, the scaler with the provider 'processes', and load that rises and falls. It needs no
    root access and no configuration file, and leaves nothing behind.

    \b
    Examples:
      lbdns-scaler demo
      lbdns-scaler demo --seconds 90 --highest 30
    """
    run(ScalerDemoPlan(**options))

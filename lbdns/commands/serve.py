"""``lbdns serve``: the DNS server."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns import log
from lbdns.commands.options import config_option, log_options
from lbdns.endpoint import DNS_PORT, Endpoint, parse_listen

EPILOG = """\b
Example:
  lbdns serve -c /etc/lbdns/lbdns.toml --listen 127.0.0.1:5300
  dig @127.0.0.1 -p 5300 best.hobbit

SIGHUP and 'lbdns reload' read the configuration again, SIGTERM and SIGINT stop."""


def _endpoints(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[Endpoint, ...]:
    try:
        return tuple(parse_listen(value, DNS_PORT) for value in values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(epilog=EPILOG)
@config_option
@click.option(
    "--listen",
    multiple=True,
    metavar="HOST:PORT",
    callback=_endpoints,
    help="Answer DNS here instead of at [server] listen. Can be given several times.",
)
@click.option("--workers", type=click.IntRange(1, 256), metavar="N", help="Processes that answer.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Take the place of the server that runs: its sockets and all it knows, without losing a query.",
)
@log_options()
def serve(
    config: Path, listen: tuple[Endpoint, ...], workers: int | None, take_over: bool, log_format: str, log_level: str
) -> None:
    """Answer DNS queries from master files and the live table of reports, with an embedded collector."""
    log.set_up(log_format, log_level)
    # Here: 'lbdns serve --help' needs none of it
    from lbdns.server.loading import Options
    from lbdns.server.start import run

    run(config, Options(listen, workers, take_over))

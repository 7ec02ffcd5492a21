"""``lbdns serve``: the DNS server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from lbdns import log
from lbdns.commands.options import config_option, log_options
from lbdns.endpoint import DNS_PORT, Endpoint, parse_listen

EPILOG = """\b
Example:
  lbdns serve -c /etc/lbdns/lbdns.toml --listen 127.0.0.1:5300
  dig @127.0.0.1 -p 5300 best.hobbit

SIGHUP reads the configuration again, SIGTERM and SIGINT stop."""


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
@click.option("--workers", type=click.IntRange(1, 1), metavar="N", help="Processes that answer; this version has one.")
@log_options()
def serve(config: Path, listen: tuple[Endpoint, ...], workers: int | None, log_format: str, log_level: str) -> None:
    """Answer DNS queries from master files and the live table of reports, with an embedded collector."""
    log.set_up(log_format, log_level)
    asyncio.run(_run(config, listen))


async def _run(config: Path, listen: tuple[Endpoint, ...]) -> None:
    # Here: 'lbdns serve --help' needs none of it
    from lbdns import program
    from lbdns.server.serve import DnsServer

    await program.run(DnsServer(config, listen))

"""``lbdns serve``: run the DNS server."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns.command_line.common_options import ParsedValue, config_option, log_options
from lbdns_shared import log
from lbdns_shared.endpoint import DNS_PORT, Endpoint, parse_listen

EPILOG = """\b
Example:
  lbdns serve -c /etc/lbdns/lbdns.toml --listen 127.0.0.1:5300
  dig @127.0.0.1 -p 5300 best.hobbit

SIGHUP and 'lbdns reload' reread the configuration; SIGTERM and SIGINT stop the server."""


@click.command(epilog=EPILOG)
@config_option
@click.option("--listen", multiple=True, type=ParsedValue(lambda text: parse_listen(text, DNS_PORT), "HOST:PORT"),
              help="Answer DNS queries on this address; overrides [server] listen. Can be repeated.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 256), metavar="N", help="Number of answering processes.")
@click.option(
    "--take-over", is_flag=True,
    help="Replace the running server by taking over its sockets and state, without losing queries.",
)  # fmt: skip
@log_options
def serve(
    config: Path, listen: tuple[Endpoint, ...], workers: int | None, take_over: bool, log_format: str, log_level: str
) -> None:
    """Answer DNS queries, using master files and the reports that the built-in collector receives."""
    log.set_up(log_format, log_level)
    # Imported late, since 'lbdns serve --help' needs neither
    from lbdns.server.server_configuration import ServeOptions
    from lbdns.server.startup import run

    run(config, ServeOptions(listen, workers, take_over))

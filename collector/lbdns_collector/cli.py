"""lbdns-collector: arguments -> configuration -> run -> exit status, nothing else."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from lbdns import __version__, log
from lbdns.config import DEFAULT_FILE
from lbdns.errors import LbdnsError

EPILOG = """\b
Example:
  lbdns-collector -c /etc/lbdns/lbdns.toml
  curl http://127.0.0.1:8053/api/v1/status

SIGHUP reads the configuration again, SIGTERM and SIGINT stop."""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-c",
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=DEFAULT_FILE,
    show_default=True,
    help="The same file as the DNS server's: pools, zones, [collector] and [web].",
)
@click.option("--log-format", type=click.Choice(log.FORMATS), default="text", show_default=True)
@click.option("--log-level", type=click.Choice(log.LEVELS), default="info", show_default=True)
@click.version_option(__version__, prog_name="lbdns-collector")
def command(path: Path, log_format: str, log_level: str) -> None:
    """Receive the reports of agents and serve the table of members over HTTP.

    A DNS server follows it when its own configuration says [collector] connect = "http://...".
    """
    log.set_up(log_format, log_level)
    from lbdns_collector.standalone import run  # here: --help needs none of it

    asyncio.run(run(path))


def main() -> None:
    """The program. A user's mistake is one message and an exit status, never a traceback."""
    try:
        command.main(standalone_mode=True)
    except LbdnsError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)

"""lbdns-collector: arguments -> configuration -> run -> exit status, nothing else."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from lbdns import __version__, log
from lbdns.cli import run
from lbdns.commands.options import config_option, log_options

EPILOG = """\b
Example:
  lbdns-collector -c /etc/lbdns/lbdns.toml
  curl http://127.0.0.1:8053/api/v1/status

SIGHUP reads the configuration again, SIGTERM and SIGINT stop."""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@config_option
@log_options()
@click.version_option(__version__, prog_name="lbdns-collector")
def command(config: Path, log_format: str, log_level: str) -> None:
    """Receive the reports of agents and serve the table of members over HTTP.

    The configuration is the same file as the DNS server's: pools, zones, [collector] and [web]. A DNS server follows
    this collector when its own configuration says [collector] connect = "http://...".
    """
    log.set_up(log_format, log_level)
    from lbdns_collector import standalone  # here: --help needs none of it

    asyncio.run(standalone.run(config))


def main() -> None:
    """The entry point of the program ``lbdns-collector``."""
    sys.exit(run(command, "lbdns-collector"))

"""The ``lbdns-collector`` command: its options, configuration file and exit status."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from lbdns import __version__
from lbdns.command_line.common_options import config_option, log_options
from lbdns.command_line.run_command import run
from lbdns_shared import log

EPILOG = """\b
Example:
  lbdns-collector -c /etc/lbdns/lbdns.toml
  curl http://127.0.0.1:8053/api/v1/status

SIGHUP reloads the configuration; SIGTERM and SIGINT stop the collector."""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@config_option
@log_options
@click.version_option(__version__, prog_name="lbdns-collector", message="%(prog)s %(version)s")
def command(config: Path, log_format: str, log_level: str) -> None:
    """Receive reports from agents, and serve the members' status over HTTP.

    The collector reads pools, zones, [collector] and [web] from a configuration file in the DNS server's format. To
    make a DNS server follow this collector, set [collector] connect in the server's configuration to the collector's
    URL.
    """
    log.set_up(log_format, log_level)
    from lbdns_collector import collector_program  # imported here because --help does not need it

    asyncio.run(collector_program.run(config))


def main() -> None:
    """Run the program ``lbdns-collector``."""
    sys.exit(run(command, "lbdns-collector"))

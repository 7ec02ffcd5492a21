"""``lbdns reload``: make a running server reload its configuration, and print the result."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns.client.control_client import send_command
from lbdns.command_line.common_options import config_option, control_option, control_path


@click.command(
    epilog="Exit status: 0 if the new configuration is in force, 1 if the old one is kept, 2 if the section [server] "
    "of FILE is invalid."
)
@config_option
@control_option
def reload(config: Path, control: Path | None) -> None:
    """Make a running server reload its configuration and zones.

    The command returns once every process uses the new configuration. If the new configuration has errors, the command
    prints them, and the server keeps the old configuration.

    \b
    Examples:
      lbdns reload
      lbdns reload --control /run/lbdns/control.sock
    """
    answer = send_command(control_path(config, control), "reload")
    click.echo(answer.get("message", "done"))

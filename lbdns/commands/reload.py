"""``lbdns reload``: have a running server read its configuration again, and say what came of it."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns.commands.options import config_option, control_option, control_path
from lbdns.control_client import order


@click.command(
    epilog="Exit status: 0 when the new configuration is in force, 1 when the old one stays, 2 for a FILE that is bad."
)
@config_option
@control_option
def reload(config: Path, control: Path | None) -> None:
    """Have a running server read its configuration and its zones again.

    Waits until every process answers from the new configuration. What is wrong with it is printed, and then the
    server goes on as before.

    \b
    Examples:
      lbdns reload
      lbdns reload --control /run/lbdns/control.sock
    """
    answer = order(control_path(config, control), "reload")
    click.echo(answer.get("message", "done"))

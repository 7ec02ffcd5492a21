"""``lbdns undrain``: return a member to rotation."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns.commands.steering import EXITS, common_options, member_argument, send_override


@click.command(epilog=EXITS)
@member_argument
@common_options
def undrain(member: str | None, pool: str, reason: str, list_all: bool, config: Path, control: Path | None) -> None:
    """Return MEMBER to rotation if its reports allow it; its share grows during ramp_up.

    Give the full name of a MEMBER that is no longer in the configuration.

    \b
    Examples:
      lbdns undrain gandalf
      lbdns undrain gandalf --pool web
      lbdns undrain --list
    """
    send_override("undrain", config, control, list_all, member, pool=pool, reason=reason)

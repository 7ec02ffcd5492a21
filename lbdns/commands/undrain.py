"""``lbdns undrain``: hand a drained member out again."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns.commands.steering import EXITS, common_options, give, member_argument


@click.command(epilog=EXITS)
@member_argument
@common_options
def undrain(member: str | None, pool: str, reason: str, list_all: bool, config: Path, control: Path | None) -> None:
    """Hand MEMBER out again, if its reports are well; its share grows to the whole within ramp_up.

    A MEMBER that the configuration doesn't have any more is named in full.

    \b
    Examples:
      lbdns undrain gandalf
      lbdns undrain gandalf --pool web
      lbdns undrain --list
    """
    give("undrain", config, control, list_all, member, pool=pool, reason=reason)

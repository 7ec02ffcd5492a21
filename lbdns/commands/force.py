"""``lbdns force``: have a member be up or down, whatever its reports say."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns.commands.steering import EXITS, common_options, force_option, give, lasting_option, member_argument


@click.command(epilog=EXITS)
@member_argument
@click.argument("to", metavar="up|down|auto", type=click.Choice(("up", "down", "auto")), required=False)
@lasting_option
@force_option
@common_options
def force(
    member: str | None,
    to: str | None,
    pool: str,
    reason: str,
    for_s: float | None,
    regardless: bool,
    list_all: bool,
    config: Path,
    control: Path | None,
) -> None:
    """Go by this instead of MEMBER's reports: up, down, or auto for what it reports again.

    Up hands out a member that is silent, refused by an alarm or set aside; nobody notices then when it dies. Down is an
    alarm that you raise: when no member is usable, those that are down are handed out as well, those that are drained
    are not. A drain counts before both.

    \b
    Examples:
      lbdns force gandalf up --for 30min --reason "its agent is being replaced"
      lbdns force frodo down
      lbdns force frodo auto
    """
    if not list_all and member and to is None:
        raise click.UsageError("Missing argument 'up|down|auto'.")
    if to == "auto" and for_s is not None:
        raise click.UsageError("--for: auto ends an order; there is nothing that could last.")
    give("force", config, control, list_all, member, to=to, pool=pool, reason=reason, for_s=for_s, force=regardless)

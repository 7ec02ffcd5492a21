"""``lbdns force``: treat a member as up or down, whatever its reports say."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns.commands.steering import EXITS, common_options, force_option, lasting_option, member_argument, send_override


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
    """Treat MEMBER as up or down whatever it reports; auto trusts its reports again.

    Up selects a member although it is silent, has raised an alarm or is quarantined; if it dies, lbdns does not notice.
    Down is an alarm that you raise: if no member is usable, members that are down are selected too, but drained ones
    are not. A drain overrides both.

    \b
    Examples:
      lbdns force gandalf up --for 30min --reason "its agent is being replaced"
      lbdns force frodo down
      lbdns force frodo auto
    """
    if not list_all and member and to is None:
        raise click.UsageError("Missing argument 'up|down|auto'.")
    if to == "auto" and for_s is not None:
        raise click.UsageError("--for: auto ends the override, so it takes no duration.")
    send_override(
        "force", config, control, list_all, member, to=to, pool=pool, reason=reason, for_s=for_s, force=regardless
    )

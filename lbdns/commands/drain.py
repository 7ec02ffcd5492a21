"""``lbdns drain``: stop sending clients to a member until it is undrained."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns.commands.steering import EXITS, common_options, force_option, lasting_option, member_argument, send_override


@click.command(epilog=EXITS)
@member_argument
@lasting_option
@force_option
@common_options
def drain(
    member: str | None,
    pool: str,
    reason: str,
    for_s: float | None,
    regardless: bool,
    list_all: bool,
    config: Path,
    control: Path | None,
) -> None:
    """Stop sending clients to MEMBER, from the next query on.

    MEMBER is a host name from the configuration, with or without its zone. The drain survives restarts. Clients that
    already know the member's address may stay: watch its requests fall in 'lbdns status'.

    \b
    Examples:
      lbdns drain gandalf --for 2h --reason "new kernel"
      lbdns drain gandalf.hobbit --pool web
      lbdns drain --list
    """
    send_override("drain", config, control, list_all, member, pool=pool, reason=reason, for_s=for_s, force=regardless)

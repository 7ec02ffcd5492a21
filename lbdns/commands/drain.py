"""``lbdns drain``: hand a member out no more, until somebody says otherwise."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns.commands.steering import EXITS, common_options, force_option, give, lasting_option, member_argument


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
    """Hand MEMBER out no more, from the next query on.

    MEMBER is a host name as the configuration has it, or in full with its zone. The order outlives restarts. Clients
    that know the member's address already stay as long as they like: watch its requests fall in 'lbdns status'.

    \b
    Examples:
      lbdns drain gandalf --for 2h --reason "new kernel"
      lbdns drain gandalf.hobbit --pool web
      lbdns drain --list
    """
    give("drain", config, control, list_all, member, pool=pool, reason=reason, for_s=for_s, force=regardless)

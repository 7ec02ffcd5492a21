"""``lbdns weight``: give a member more or less than its measured share."""

from __future__ import annotations

import math
from pathlib import Path

import click

from lbdns.commands.steering import EXITS, common_options, lasting_option, member_argument, send_override
from lbdns.model.overrides import GREATEST_FACTOR, LEAST_FACTOR


@click.command(epilog=EXITS)
@member_argument
@click.argument("factor", type=click.FloatRange(LEAST_FACTOR, GREATEST_FACTOR), required=False)
@lasting_option
@common_options
def weight(
    member: str | None,
    factor: float | None,
    pool: str,
    reason: str,
    for_s: float | None,
    list_all: bool,
    config: Path,
    control: Path | None,
) -> None:
    """Multiply MEMBER's measured capacity by FACTOR, and its score in policies that compare scores.

    FACTOR is a number from 0.01 to 100; 1 ends the override. It affects every policy but round_robin.

    \b
    Examples:
      lbdns weight gandalf 0.5 --reason "half of it is on loan"
      lbdns weight gandalf 0.1 --for 1h
      lbdns weight gandalf 1
    """
    if not list_all and member and factor is None:
        raise click.UsageError("Missing argument 'FACTOR'.")
    if factor is not None and math.isnan(factor):  # nan passes every range check
        raise click.UsageError("FACTOR: nan is not a valid number.")
    if factor == 1 and for_s is not None:
        raise click.UsageError("--for: 1 ends the override, so it takes no duration.")
    send_override("weight", config, control, list_all, member, factor=factor, pool=pool, reason=reason, for_s=for_s)

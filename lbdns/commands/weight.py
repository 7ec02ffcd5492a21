"""``lbdns weight``: take a member for larger or smaller than it looks."""

from __future__ import annotations

import math
from pathlib import Path

import click

from lbdns.commands.steering import EXITS, common_options, give, lasting_option, member_argument
from lbdns.overrides import GREATEST_FACTOR, LEAST_FACTOR


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
    """Take MEMBER for FACTOR times as large as it looks: its capacity, and its score where scores are compared.

    FACTOR is a number from 0.01 to 100; 1 ends the order. Every policy goes by it but round_robin.

    \b
    Examples:
      lbdns weight gandalf 0.5 --reason "half of it is on loan"
      lbdns weight gandalf 0.1 --for 1h
      lbdns weight gandalf 1
    """
    if not list_all and member and factor is None:
        raise click.UsageError("Missing argument 'FACTOR'.")
    if factor is not None and math.isnan(factor):  # which is in every range
        raise click.UsageError("FACTOR: nan is no number.")
    if factor == 1 and for_s is not None:
        raise click.UsageError("--for: 1 ends an order; there is nothing that could last.")
    give("weight", config, control, list_all, member, factor=factor, pool=pool, reason=reason, for_s=for_s)

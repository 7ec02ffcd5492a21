"""The command ``lbdns-scaler trace``, which prints a generated trace of demand as CSV."""

from __future__ import annotations

import click

from lbdns_tools.scaler.replay.trace_file import csv_lines
from lbdns_tools.scaler.replay.trace_generator import generate_trace


@click.command(
    "trace",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit status: 0 on success, 1 on failure, 2 on invalid arguments.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 366),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of days. The first one is a Monday.",
)
@click.option("--seed", type=click.IntRange(0, 2**62), default=1, show_default=True, metavar="N", help="Random seed.")
def command(days: int, seed: int) -> None:
    """Print a generated trace of demand as CSV, with one row per minute, for 'lbdns-scaler replay'.

    On weekdays, the rate is 35 to 600 requests/s, and the day's total is 22.2 million requests. Weekends have less
    demand. With 3 days or more, there is one campaign, and the site is down once for 40 minutes. The same seed always
    gives the same trace.

    \b
    Example:
      lbdns-scaler trace --days 15 --seed 1 > days.csv
    """
    comment = f"lbdns-scaler trace --days {days} --seed {seed}"
    for line in csv_lines(generate_trace(days, seed), comment):
        click.echo(line)

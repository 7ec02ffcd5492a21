"""The program ``lbdns-scaler``, a group of commands."""

from __future__ import annotations

import sys

import click

from lbdns.command_line.command_group import SuggestingGroup
from lbdns.command_line.run_command import run
from lbdns_tools import __version__
from lbdns_tools.scaler.demo import demo_command
from lbdns_tools.scaler.replay import replay_command, trace_command
from lbdns_tools.scaler.running import run_command, status_command


@click.group(
    cls=SuggestingGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit status: 0 on success, 1 on failure, 2 on invalid arguments.",
)
@click.version_option(__version__, prog_name="lbdns-scaler", message="%(prog)s %(version)s")
def command() -> None:
    """Start, drain and stop web servers so that the size of a farm follows its load.

    \b
    Examples:
      lbdns-scaler demo
      lbdns-scaler plan -c /etc/lbdns/scaler.toml
      lbdns-scaler run -c /etc/lbdns/scaler.toml
      lbdns-scaler replay one-day --policy cpu,revenue,queue
      lbdns-scaler trace --days 15 --seed 1 > days.csv
    """


command.add_command(demo_command.demo)
command.add_command(run_command.run)
command.add_command(run_command.plan)
command.add_command(status_command.status)
command.add_command(replay_command.command)
command.add_command(trace_command.command)


def main() -> None:
    """Run the program ``lbdns-scaler`` and exit with its status."""
    sys.exit(run(command, "lbdns-scaler"))

"""``lbdns keygen``: a fresh master key, or the key of one agent that follows from a master key."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns.errors import KeyFileError
from lbdns.keys import agent_line, new_master_key, read_key_file
from lbdns.report import is_host_name


@click.command(
    epilog="Several lines in a file are a rotation: all are accepted, the first is used. Keep key files at mode 0600.",
)
@click.option("--agent", metavar="HOST", help="Print the key of this host instead. Needs --master.")
@click.option(
    "--master",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The collector's key file; its first master key is used.",
)
def keygen(agent: str | None, master: Path | None) -> None:
    """Print a line for a key file on standard output.

    Without options a new master key, for the collector. With --agent the key of one host, with which it can
    speak for itself alone.

    \b
    Examples:
      (umask 077; lbdns keygen > report.key)
      (umask 077; lbdns keygen --agent gandalf --master report.key > gandalf.key)
    """
    if agent is None and master is None:
        click.echo(new_master_key().line())
        return
    if agent is None or master is None:
        raise click.UsageError("--agent and --master go together: an agent's key follows from a master key.")
    click.echo(line_for(agent, master))


def line_for(agent: str, master: Path) -> str:
    """The key file line of one host. Raises KeyFileError, and click.BadParameter for what is no host name."""
    host = agent.lower()
    if not is_host_name(host):
        raise click.BadParameter(
            f"{agent!r} is no host name: letters, digits, - and _ in labels of at most 63.", param_hint="--agent"
        )
    keys, warnings = read_key_file(master)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if not keys.masters:
        raise KeyFileError(f"{master}: key file: holds no master key; the collector's file has one")
    return agent_line(keys.masters[0].agent_key(host))

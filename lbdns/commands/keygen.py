"""``lbdns keygen``: print a new master key, or the key of one agent derived from a master key."""

from __future__ import annotations

from pathlib import Path

import click

from lbdns_shared.errors import KeyFileError
from lbdns_shared.keys import agent_line, new_master_key, read_key_file
from lbdns_shared.report import is_host_name


@click.command(
    epilog="All keys in a key file are accepted; the first key signs reports. Key files should have mode 0600."
)
@click.option("--agent", metavar="HOST", help="Print HOST's agent key. Requires --master.")
@click.option("--master", type=click.Path(path_type=Path), metavar="FILE",
              help="The collector's key file, whose first master key is used to derive the agent key.")  # fmt: skip
def keygen(agent: str | None, master: Path | None) -> None:
    """Print one line for a key file on standard output.

    Without options, the line contains a new master key for the collector. With --agent, the line contains HOST's key,
    which can sign only HOST's reports.

    \b
    Examples:
      (umask 077; lbdns keygen > report.key)
      (umask 077; lbdns keygen --agent gandalf --master report.key > gandalf.key)
    """
    if agent is None and master is None:
        click.echo(new_master_key().line())
        return
    if agent is None or master is None:
        raise click.UsageError("--agent and --master must be given together.")
    click.echo(line_for(agent, master))


def line_for(agent: str, master: Path) -> str:
    """Return the key of one host as a line for a key file.

    Raises BadParameter if the host name is not valid, or KeyFileError if the key file is not valid.
    """
    host = agent.lower()
    if not is_host_name(host):
        raise click.BadParameter(
            f"{agent!r} is not a valid host name: each label must consist of 1 to 63 letters, digits, - or _.",
            param_hint="--agent",
        )
    keys, warnings = read_key_file(master)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if not keys.masters:
        raise KeyFileError(f"{master}: the key file contains no master key; specify the collector's key file")
    return agent_line(keys.masters[0].agent_key(host))

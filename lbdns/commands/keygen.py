"""``lbdns keygen``: print a new master key, the key of one agent derived from a master key, or a new nkey."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from lbdns.secrets.bus_access import HOW_TO_INSTALL_NKEYS
from lbdns_shared.errors import KeyFileError
from lbdns_shared.keys import agent_line, new_master_key, read_key_file
from lbdns_shared.nkey import Nkey, check_signing
from lbdns_shared.nkey_format import SEED_LENGTH, user_seed_text
from lbdns_shared.report import is_host_name


@click.command(
    epilog="All keys in a key file are accepted; the first key signs reports. Key files should have mode 0600."
)
@click.option("--agent", metavar="HOST", help="Print HOST's agent key. Requires --master.")
@click.option("--master", type=click.Path(path_type=Path), metavar="FILE",
              help="The collector's key file, whose first master key is used to derive the agent key.")  # fmt: skip
@click.option("--nkey", is_flag=True, help="Print a new nkey for a user of a bus (NATS).")
def keygen(agent: str | None, master: Path | None, nkey: bool) -> None:
    """Print one line for a key file on standard output.

    Without options, the line contains a new master key for the collector. With --agent, the line contains HOST's key,
    which can sign only HOST's reports. With --nkey, the line is the seed of a new user of a bus; the public key, which
    the NATS server needs, is in a comment before it.

    \b
    Examples:
      (umask 077; lbdns keygen > report.key)
      (umask 077; lbdns keygen --agent gandalf --master report.key > gandalf.key)
      (umask 077; lbdns keygen --nkey > gandalf.nk)
    """
    if nkey:
        if agent is not None or master is not None:
            raise click.UsageError("--nkey can't be combined with --agent or --master.")
        click.echo(nkey_lines())
        return
    if agent is None and master is None:
        click.echo(new_master_key().line())
        return
    if agent is None or master is None:
        raise click.UsageError("--agent and --master must be given together.")
    click.echo(line_for(agent, master))


def nkey_lines() -> str:
    """Return the lines of a file with a new nkey: the public key as a comment, and the seed. Raises ConfigError."""
    check_signing("--nkey", HOW_TO_INSTALL_NKEYS)
    nkey = Nkey(secrets.token_bytes(SEED_LENGTH))
    return f"# public key: {nkey.public_key}\n{user_seed_text(nkey.seed)}"


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

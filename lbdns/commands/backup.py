"""``lbdns backup``: write everything that a server keeps in its state directory to one file, while the server runs."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

import click

from lbdns.backup.archive_writer import new_file, scratch_folder, write_archive
from lbdns.backup.manifest import Manifest
from lbdns.command_line.common_options import config_option
from lbdns.config import Config, load_sections
from lbdns.process.stop_signals import interrupting_stop_signals
from lbdns.text.counts import counted
from lbdns_shared.errors import LbdnsError

STANDARD_OUTPUT: Final = Path("-")


@click.command(
    epilog="Exit status: 0 if the backup is complete, 1 if it could not be written (no file is left behind then), 2 if "
    "the section [server] of the configuration is invalid."
)
@config_option
@click.option("--no-history", is_flag=True, help="Leave out the recorded metrics and events, by far the largest file.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def backup(config: Path, no_history: bool, file: Path) -> None:
    """Back up the state directory of a running or stopped server to FILE, a compressed tar archive.

    The backup contains overrides, joined members, serial numbers of zones, sequence numbers of reports, and the
    history. An existing FILE is never overwritten. If FILE is -, the archive is written to standard output. Run this
    command as root or as the server's user; only root and this user can read FILE.

    The backup contains no keys or passwords. Keys, zones and the configuration are not in the state directory: back
    them up too. The backup shows names, addresses and the load of hosts, and the reasons given for overrides.

    \b
    Examples:
      lbdns backup /var/backups/lbdns-$(date +%F).tar.gz
      lbdns backup - | ssh backup.example.com 'umask 077; cat > lbdns.tar.gz'
    """
    settings = load_sections(config, "server")
    state_dir = settings.server.state_dir
    if not state_dir.is_dir():
        raise LbdnsError(f"[server] state_dir: {state_dir}: there is no such directory; is {config} the right file?")
    with interrupting_stop_signals():
        try:
            if file == STANDARD_OUTPUT:
                _write_to_standard_output(settings, not no_history)
                return
            with new_file(file) as (target, scratch):
                manifest = write_archive(state_dir, target, scratch, _zones(settings), time.time(), not no_history)
                size = target.tell()
        except OSError as error:
            raise LbdnsError(f"{file}: cannot write the backup: {error.strerror}; nothing has been written") from None
    click.echo(f"{file}: {_summary(manifest)}, {size / 1e6:.1f} MB")


def _write_to_standard_output(settings: Config, history: bool) -> None:
    if sys.stdout.isatty():
        raise click.UsageError("FILE -: redirect standard output to a file or a pipe; it is a terminal")
    with scratch_folder() as scratch, open(os.dup(sys.stdout.fileno()), "wb") as target:
        write_archive(settings.server.state_dir, target, scratch, _zones(settings), time.time(), history)


def _zones(settings: Config) -> tuple[str, ...]:
    return tuple(zone.name for zone in settings.zones)


def _summary(manifest: Manifest) -> str:
    return f"{counted(len(manifest.files), 'file')} ({', '.join(file.name for file in manifest.files)})"

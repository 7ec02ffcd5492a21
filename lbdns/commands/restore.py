"""``lbdns restore``: put a backup into the state directory of a server that is not running, or list a backup."""

from __future__ import annotations

import os
import pwd
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click

from lbdns.backup.archive_reader import read_archive
from lbdns.backup.manifest import ArchiveError, Manifest
from lbdns.backup.restore import check_unused, describe_failure, restore_archive
from lbdns.backup.state_files import STATE_FILES
from lbdns.command_line.common_options import config_option
from lbdns.commands.terminal.printable import printable
from lbdns.config import ServerConfig, load_sections
from lbdns.process import privileges
from lbdns.process.state_lock import StateInUseError
from lbdns.process.stop_signals import interrupting_stop_signals
from lbdns.text.counts import counted
from lbdns.text.times import format_time
from lbdns_shared.errors import LbdnsError

STANDARD_INPUT: Final = Path("-")


@click.command(
    epilog="Exit status: 0 on success, 1 if nothing was restored, 2 if the section [server] of the configuration is "
    "invalid."
)
@config_option
@click.option("--list", "only_list", is_flag=True, help="Verify FILE and print what it contains; change nothing.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def restore(config: Path, only_list: bool, file: Path) -> None:
    """Restore the state directory of a stopped server from FILE, a backup written by 'lbdns backup'.

    The archive is verified completely before any file is changed. The previous files are moved to a folder
    'before-restore-TIME' in the state directory; remove the folder when you no longer need it. If FILE is -, the
    archive is read from standard input.

    The command refuses to run while a server or a collector uses the state directory. Run it as root or as the server's
    user. If it is run as root, the files will belong to [server] user or, if 'user' is not set, to the owner of the
    state directory. A history that the backup has left out stays in place.

    \b
    Examples:
      lbdns restore --list /var/backups/lbdns-2026-03-01.tar.gz
      systemctl stop lbdns
      lbdns restore /var/backups/lbdns-2026-03-01.tar.gz
      systemctl start lbdns
    """
    with interrupting_stop_signals(), _opened(file) as source:
        try:
            if only_list:
                _print_list(read_archive(source, lambda _: _Discarded()))
            else:
                _restore(config, file, source)
        except ArchiveError as error:
            raise ArchiveError(f"{file}: {error}") if only_list else describe_failure(str(file), error) from None


def _restore(config: Path, file: Path, source: BinaryIO) -> None:
    settings = load_sections(config, "server")
    state_dir = settings.server.state_dir
    try:
        check_unused(settings.server.control)
        user = _owner(settings.server)
        privileges.own_folder(state_dir, user)
        privileges.become(user)
        restored = restore_archive(source, state_dir, time.time())
    except StateInUseError as error:
        raise LbdnsError(
            f"{error}; stop it first (systemctl stop lbdns, or lbdns-collector). Nothing has been changed"
        ) from None
    manifest = restored.manifest
    names = ", ".join(each.name for each in manifest.files)
    click.echo(f"{state_dir}: restored {counted(len(manifest.files), 'file')} ({names}) from {_origin(manifest)}")
    if restored.kept:
        click.echo(f"the previous files are in {restored.kept}")
    served = sorted(zone.name for zone in settings.zones)
    if served != sorted(manifest.zones):
        click.echo(
            f"warning: {file} is from a server for the zones {_zone_names(manifest.zones)}, but {config} serves "
            f"{_zone_names(served)}",
            err=True,
        )


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise LbdnsError(f"{file}: cannot read the file: {error.strerror}") from None
    with source:
        yield source


class _Discarded:
    """Discards content: the archive is only verified."""

    def write(self, data: bytes, /) -> None:
        pass


def _owner(server: ServerConfig) -> str:
    """Return the user to whom the restored files will belong, or an empty string for this process's user. Raises
    LbdnsError."""
    if server.user:
        privileges.check_user(server.user)
    if server.user or os.geteuid() != 0:
        return server.user
    try:
        owner = server.state_dir.stat().st_uid
    except OSError:
        return ""
    if owner == 0:
        return ""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        raise LbdnsError(
            f"{server.state_dir}: belongs to user ID {owner}, which has no name on this machine; "
            "set [server] user, or run this command with that user ID"
        ) from None


def _print_list(manifest: Manifest) -> None:
    click.echo(_origin(manifest))
    click.echo(f"zones: {_zone_names(manifest.zones)}")
    for file in manifest.files:
        click.echo(f"  {file.name:<18} {file.bytes:>12,} bytes  {STATE_FILES[file.name].contents}")
    for name in manifest.left_out:
        click.echo(f"  {name:<18} {'left out':>18}  {STATE_FILES[name].contents}")
    click.echo("every checksum is correct")


def _origin(manifest: Manifest) -> str:
    when = format_time(manifest.time)
    return f"a backup of lbdns {printable(manifest.version)} on {printable(manifest.host)}, {when}"


def _zone_names(zones: Sequence[str]) -> str:
    return ", ".join(printable(zone) or "." for zone in zones) or "none"

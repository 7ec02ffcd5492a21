"""``lbdns init``: write the configuration, the zone and the key of a new farm, and print the next steps."""

from __future__ import annotations

import os
import pwd
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import click

from lbdns.command_line.common_options import ParsedValue
from lbdns.model.configuration_files import read_files
from lbdns.setup.farm_folder import PRIVATE, FileToWrite, write_files
from lbdns.setup.new_farm import (
    KEY_FILE,
    NewFarm,
    NewMember,
    check_farm,
    collector_option,
    configuration_text,
    delegation,
    parse_address,
    parse_member,
    parse_zone,
    zone_text,
)
from lbdns_shared.errors import LbdnsError
from lbdns_shared.keys import new_master_key

T = TypeVar("T")

CONFIG_FILE: Final = "lbdns.toml"
AGENT_KEY: Final = "/etc/lbdns/agent.key"  # on each web server
AGENT_OPTIONS: Final = "/etc/default/lbdns-agent"  # read by the agent's service


@click.command(
    short_help="Write the configuration of a new farm.",
    epilog="The command never overwrites a file. It only renames the example that the Debian package installs.",
)
@click.option("--zone", type=ParsedValue(parse_zone, "NAME"), help="Zone that this server will answer for.")
@click.option("--name", default="www", show_default=True, type=ParsedValue(parse_zone, "NAME"),
              help="Name in the zone that clients use for the pool of web servers.")  # fmt: skip
@click.option("--address", type=ParsedValue(parse_address, "ADDRESS"), help="Address of this DNS server.")
@click.option("--member", "members", multiple=True, type=ParsedValue(parse_member, "NAME=ADDRESS[,ADDRESS]"),
              help="Web server, with its name in the zone and its addresses; may be repeated.")  # fmt: skip
@click.option("--dir", "folder", type=click.Path(path_type=Path, file_okay=False), default="/etc/lbdns",
              show_default=True, metavar="DIR", help="Folder for the files.")  # fmt: skip
@click.option("--user", default="lbdns", show_default=True, metavar="USER",
              help="User that the server switches to if root starts it; if empty, the server stays root.")  # fmt: skip
def init(
    zone: str | None, name: str, address: str | None, members: tuple[NewMember, ...], folder: Path, user: str
) -> None:
    """Write lbdns.toml, the zone file and the key of a new farm, and print the next steps.

    The command asks for everything that the options do not specify.

    \b
    Examples:
      lbdns init
      lbdns init --zone example.net --address 192.0.2.53 \\
        --member frodo=192.0.2.2 --member bilbo=192.0.2.3,2001:db8::3
    """
    _require_options(("--zone", zone), ("--address", address), ("--member", members))
    zone = zone or _asked("Zone (such as example.net)", parse_zone)
    address = address or _asked("Address of this DNS server", parse_address)
    members = members or _asked("Web servers (NAME=ADDRESS, separated by spaces)", _parse_members)
    farm = NewFarm(zone, name, address, members, _addresses_to_listen_on(address), _existing_user(user))
    try:
        check_farm(farm)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    uid, gid = _owner(farm.user)
    files = {
        CONFIG_FILE: FileToWrite(configuration_text(farm)),
        farm.zone_file: FileToWrite(zone_text(farm)),
        KEY_FILE: FileToWrite(f"{new_master_key().line()}\n", PRIVATE),
    }
    moved = write_files(folder, files, uid, gid)
    read_files(folder / CONFIG_FILE)
    for line in _report(farm, folder, tuple(files), moved):
        click.echo(line)


def _require_options(*options: tuple[str, object]) -> None:
    """Raise a UsageError if an option is missing and standard input is not a terminal, so that no user can be asked."""
    missing = [name for name, value in options if not value]
    if missing and not sys.stdin.isatty():
        raise click.UsageError(f"standard input is not a terminal, so these options are required: {', '.join(missing)}")


def _asked(question: str, parse: Callable[[str], T]) -> T:
    def value(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    found: T = click.prompt(question, value_proc=value)
    return found


def _parse_members(text: str) -> tuple[NewMember, ...]:
    return tuple(parse_member(word) for word in text.split())


def _addresses_to_listen_on(address: str) -> tuple[str, ...]:
    """Return the address and the loopback address, or an empty tuple if ``address`` does not belong to this machine.

    The server cannot listen on all addresses if systemd-resolved already uses port 53 on one of them. If ``address`` is
    translated (NAT), it belongs to another machine.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((address, 0))
    except OSError:
        return ()
    loopback = "127.0.0.1"
    return tuple(dict.fromkeys((f"[{address}]" if ":" in address else address, loopback)))


def _existing_user(user: str) -> str:
    """Return ``user`` if this process runs as root, because the server can then run as this user; otherwise, return an
    empty string.

    Raises LbdnsError if there is no such user.
    """
    if not user or os.geteuid() != 0:
        return ""
    try:
        pwd.getpwnam(user)
    except KeyError:
        raise LbdnsError(
            f"there is no user {user!r}; create it with 'adduser --system --group {user}', or name another with --user"
        ) from None
    return user


def _owner(user: str) -> tuple[int, int]:
    if not user:
        return -1, -1
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid


def _report(farm: NewFarm, folder: Path, files: tuple[str, ...], moved: Path | None) -> Iterator[str]:
    """Yield the lines to print: the files that were written, and the next steps."""
    config = folder / CONFIG_FILE
    yield f"written: {', '.join(str(folder / name) for name in files)}"
    if moved:
        yield f"the example has been renamed to {moved}"
    usual = str(config) == "/etc/lbdns/lbdns.toml"
    yield ""
    yield "1. On this machine, start the server:"
    if usual and Path("/run/systemd/system").is_dir():
        yield "     systemctl restart lbdns          # if lbdns was installed from a package; otherwise:"
    yield f"     lbdns serve{'' if usual else f' -c {shlex.quote(str(config))}'}"
    yield ""
    yield "2. From this machine, copy each web server's key to that server (lbdns-agent must be installed there):"
    master = shlex.quote(str(folder / KEY_FILE))
    for member in farm.members:
        remote = f"umask 077; mkdir -p /etc/lbdns; cat > {AGENT_KEY}"
        yield (
            f"     lbdns keygen --agent {member.name} --master {master} | ssh root@{member.addresses[0]} "
            f"{shlex.quote(remote)}"
        )
    yield ""
    yield "3. On each web server, start the agent:"
    yield f"     lbdns-agent {collector_option(farm)} --key-file {AGENT_KEY}"
    yield "   or, if the agent was installed from a package:"
    options = f'LBDNS_AGENT_OPTIONS="{collector_option(farm)}"'
    yield f"     echo '{options}' > {AGENT_OPTIONS}; systemctl restart lbdns-agent"
    yield ""
    yield "4. Check that it works:"
    yield f"     lbdns status{'' if usual else f' -c {shlex.quote(str(config))}'}"
    where = f"@[{farm.address}]" if ":" in farm.address else f"@{farm.address}"
    yield f"     lbdns ask {farm.clients_name}.{farm.zone} {where}"
    yield ""
    yield "5. In the parent zone, delegate the zone to this server:"
    yield from (f"     {record}" for record in delegation(farm))

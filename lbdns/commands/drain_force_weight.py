"""``lbdns drain``, ``undrain``, ``force`` and ``weight``: override the state or capacity that a member reports."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from lbdns.client.control_client import send_command
from lbdns.command_line.common_options import DURATION, ParsedValue, config_option, control_option, control_path
from lbdns.model.overrides import GREATEST_FACTOR, LEAST_FACTOR, MAX_REASON, read_override
from lbdns_shared.errors import LbdnsError

_SOON: Final = 600.0  # s: times within ten minutes are printed with seconds


def _parse_reason(text: str) -> str:
    text = text.strip()
    if len(text) > MAX_REASON or not text.isprintable():
        raise ValueError(f"must consist of at most {MAX_REASON} printable characters")
    return text


def _override_command(*options: Callable[[Any], Any]) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that adds MEMBER, ``options``, and the options that all override commands share."""
    every = (
        click.argument("member", required=False),
        *options,
        click.option(
            "--pool", default="", metavar="POOL", help="Limit the command to this pool. Default: all of MEMBER's pools."
        ),
        click.option("--reason", type=ParsedValue(_parse_reason, "TEXT"), default="",
                     help="Reason for the command, shown in the status and the log."),
        click.option("--list", "list_all", is_flag=True, help="Print all overrides in force without changing them."),
        control_option,
        config_option,
    )  # fmt: skip

    def decorate(command: Callable[..., None]) -> click.Command:
        for option in reversed(every):
            command = option(command)
        epilog = "Exit status: 0 on success, 1 if the server refuses or does not respond, 2 on invalid arguments."
        return click.command(epilog=epilog)(command)

    return decorate


_FOR: Final = click.option(
    "--for", "for_s", type=DURATION, help="End the override after this time, such as 30min or 2h."
)
_FORCE: Final = click.option("--force", is_flag=True, help="Proceed even if a pool is left without a usable member.")


@_override_command(
    _FOR, _FORCE, click.option("--ahead", is_flag=True, help="Also accept a host that has not joined the pool yet.")
)
def drain(**options: Any) -> None:
    """Stop sending clients to MEMBER, starting with the next query.

    MEMBER is a host name from the configuration, with or without its zone. The drain survives restarts. Clients that
    have cached the member's address may keep using it. 'lbdns status' shows how many requests the member still
    receives.

    With --ahead, MEMBER may also be a host that has not joined its pool yet. It is then drained from the moment it
    joins.

    \b
    Examples:
      lbdns drain gandalf --for 2h --reason "new kernel"
      lbdns drain gandalf.hobbit --pool web
      lbdns drain --list
    """
    _send_override("drain", **options)


@_override_command()
def undrain(**options: Any) -> None:
    """Return MEMBER to rotation if its reports allow it.

    MEMBER's share then grows gradually during the pool's ramp_up time.

    If MEMBER is no longer in the configuration, specify its full name.

    \b
    Examples:
      lbdns undrain gandalf
      lbdns undrain gandalf --pool web
      lbdns undrain --list

    """
    _send_override("undrain", **options)


@_override_command(
    click.argument("to", metavar="up|down|auto", type=click.Choice(("up", "down", "auto")), required=False),
    _FOR,
    _FORCE,
)
def force(to: str | None, **options: Any) -> None:
    """Treat MEMBER as up or down regardless of its reports; 'auto' ends this override.

    With 'up', lbdns selects the member even if it is silent, in alarm or quarantined. Even a dead member then stays in
    rotation. With 'down', lbdns treats the member as if it had sent an alarm. If no member is usable, lbdns also
    selects members that are forced down, but never drained members. A drain takes precedence over 'up' and 'down'.

    \b
    Examples:
      lbdns force gandalf up --for 30min --reason "its agent is being replaced"
      lbdns force frodo down
      lbdns force frodo auto
    """
    if options["member"] and to is None and not options["list_all"]:
        raise click.UsageError("Missing argument 'up|down|auto'.")
    if to == "auto" and options["for_s"] is not None:
        raise click.UsageError("--for cannot be used with auto, which ends the override.")
    _send_override("force", to=to, **options)


@_override_command(click.argument("factor", type=click.FloatRange(LEAST_FACTOR, GREATEST_FACTOR), required=False), _FOR)
def weight(factor: float | None, **options: Any) -> None:
    """Multiply MEMBER's measured capacity by FACTOR. FACTOR also multiplies the score in policies that compare scores.

    FACTOR is a number from 0.01 to 100. The factor 1 ends the override. Weights affect every policy except
    'round_robin'.

    \b
    Examples:
      lbdns weight gandalf 0.5 --reason "half of it is on loan"
      lbdns weight gandalf 0.1 --for 1h
      lbdns weight gandalf 1
    """
    if options["member"] and factor is None and not options["list_all"]:
        raise click.UsageError("Missing argument 'FACTOR'.")
    if factor is not None and math.isnan(factor):  # nan passes every range check
        raise click.UsageError("FACTOR: nan is not a valid number.")
    if factor == 1 and options["for_s"] is not None:
        raise click.UsageError("--for cannot be used with factor 1, which ends the override.")
    _send_override("weight", factor=factor, **options)


def _send_override(
    command: str, config: Path, control: Path | None, list_all: bool, member: str | None, **options: Any
) -> None:
    """Send the command to the server and print the resulting overrides. Raises LbdnsError."""
    path = control_path(config, control)
    if list_all and member:
        raise click.UsageError("--list takes no MEMBER")
    if list_all:
        _show(send_command(path, "overrides"), time.time(), "no overrides are in force")
        return
    if not member:
        raise click.UsageError("Missing argument 'MEMBER'.")
    fields = {key: value for key, value in options.items() if value not in (None, "", False)}
    _show(send_command(path, command, member=member, **fields), time.time())


def _show(reply: Mapping[str, Any], now: float, nothing: str = "") -> None:
    """Print the overrides that have ended and those in force.

    The server's notes are printed to standard error.
    """
    try:
        lines = [*_ended(reply.get("ended", ())), *_in_force(reply["in_force"], now)]
        notes = list(map(str, reply["notes"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LbdnsError(
            "the server's reply is not valid; check that the server runs the same version of lbdns as this command"
        ) from None
    for line in lines or [nothing]:
        click.echo(line)
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _in_force(documents: Iterable[Mapping[str, Any]], now: float) -> Iterable[str]:
    for document in documents:
        override = read_override(document)
        until = f" until {clock_time(override.until, now)}" if override.until < math.inf else ""
        where = f" in pool {override.pool}" if override.pool else ""
        forgotten = "" if document["pools"] else " (no pool has this member now)"
        yield f"{override.member}{where}: {override.text(until)}{forgotten}"


def _ended(documents: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for override in map(read_override, documents):
        where = f" in pool {override.pool}" if override.pool else ""
        yield f"{override.member}{where}: no longer {override.text()}"


def clock_time(at: float, now: float) -> str:
    """Return Unix time ``at`` as local time, without the date if ``at`` and ``now`` are on the same day."""
    there, here = time.localtime(at), time.localtime(now)
    date = "" if there[:3] == here[:3] else time.strftime("%Y-%m-%d ", there)
    return date + time.strftime("%H:%M:%S" if abs(at - now) < _SOON else "%H:%M", there)

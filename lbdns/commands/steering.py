"""What the override commands (drain, undrain, force, weight) share: options, the request, and printing the reply."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lbdns.client.control_client import send_command
from lbdns.command_line.common_options import config_option, control_option, control_path
from lbdns.model.overrides import MAX_REASON, read_override
from lbdns.text.duration import parse_duration
from lbdns_shared.errors import LbdnsError

F = TypeVar("F", bound=Callable[..., Any])

EXITS: Final = "Exit status: 0 success, 1 if the server refuses or does not respond, 2 for bad arguments."
_SOON: Final = 600.0  # s: times within ten minutes are printed with seconds


class _Duration(click.ParamType[float]):
    """A duration, converted to seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Reason(click.ParamType[str]):
    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if len(text) > MAX_REASON or not text.isprintable():
            self.fail(f"must have at most {MAX_REASON} characters, all printable", param, ctx)
        return text


def member_argument(command: F) -> F:
    """Add the argument MEMBER, required except with ``--list``."""
    return click.argument("member", required=False)(command)


def common_options(command: F) -> F:
    """Add the options that every override command has."""
    command = control_option(config_option(command))
    command = click.option("--list", "list_all", is_flag=True, help="Print all overrides in force and change nothing.")(
        command
    )
    command = click.option(
        "--reason", type=_Reason(), default="", metavar="TEXT", help="The reason, shown in the status and the log."
    )(command)
    return click.option(
        "--pool", default="", metavar="POOL", help="Only in this pool; the default is every pool that has MEMBER."
    )(command)


def lasting_option(command: F) -> F:
    return click.option(
        "--for",
        "for_s",
        type=_Duration(),
        metavar="DURATION",
        help="End the override after this time, such as 30min or 2h.",
    )(command)


def force_option(command: F) -> F:
    return click.option(
        "--force", "regardless", is_flag=True, help="Proceed even if the pool is left without a usable member."
    )(command)


def send_override(
    command: str, config: Path, control: Path | None, list_all: bool, member: str | None, **words: Any
) -> None:
    """Send the command to the server and print the overrides then in force. Raises LbdnsError."""
    path = control_path(config, control)
    if list_all and member:
        raise click.UsageError("--list takes no MEMBER")
    if list_all:
        show(send_command(path, "overrides"), time.time(), "no overrides: every member is treated as it reports")
        return
    if not member:
        raise click.UsageError("Missing argument 'MEMBER'.")
    fields = {key: value for key, value in words.items() if value not in (None, "", False)}
    show(send_command(path, command, member=member, **fields), time.time())


def show(answer: Mapping[str, Any], now: float, nothing: str = "") -> None:
    """Print the overrides that ended and those in force; print the server's notes to standard error."""
    try:
        lines = [*_ended(answer.get("ended", ())), *_in_force(answer["in_force"], now)]
        notes = list(map(str, answer["notes"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LbdnsError("the server's reply is not valid; does the server run another version of lbdns?") from None
    for line in lines or [nothing]:
        click.echo(line)
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _in_force(documents: Iterable[Mapping[str, Any]], now: float) -> Iterable[str]:
    for document in documents:
        override = read_override(document)
        until = f" until {clock_time(override.until, now)}" if override.until < math.inf else ""
        where = f" in pool {override.pool}" if override.pool else ""
        forgotten = "" if document["pools"] else " (no longer in the configuration)"
        yield f"{override.member}{where}: {override.text(until)}{forgotten}"


def _ended(documents: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for document in documents:
        override = read_override(document)
        where = f" in pool {override.pool}" if override.pool else ""
        yield f"{override.member}{where}: no longer {override.text()}"


def clock_time(at: float, now: float) -> str:
    """Return a point in time (Unix seconds) in local time, without the date if it is today."""
    there, here = time.localtime(at), time.localtime(now)
    date = "" if there[:3] == here[:3] else time.strftime("%Y-%m-%d ", there)
    return date + time.strftime("%H:%M:%S" if abs(at - now) < _SOON else "%H:%M", there)

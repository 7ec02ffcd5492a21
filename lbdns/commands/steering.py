"""What the commands that steer members have in common: options, giving the order, and printing what came of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lbdns.commands.options import config_option, control_option, control_path
from lbdns.control_client import order
from lbdns.duration import parse_duration
from lbdns.errors import LbdnsError
from lbdns.overrides import MAX_REASON, read_override

F = TypeVar("F", bound=Callable[..., Any])

EXITS: Final = "Exit status: 0 when it is in force, 1 when the server refuses or isn't there, 2 for bad arguments."
_SOON: Final = 600.0  # s: within ten minutes seconds are of interest


class _Span(click.ParamType[float]):
    """A span of time, in seconds."""

    name = "span"

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
            self.fail(f"at most {MAX_REASON} characters, all of them printable", param, ctx)
        return text


def member_argument(command: F) -> F:
    """MEMBER, which only ``--list`` goes without; see ``give``."""
    return click.argument("member", required=False)(command)


def common_options(command: F) -> F:
    """What every order about a member takes."""
    command = control_option(config_option(command))
    command = click.option(
        "--list", "list_all", is_flag=True, help="Change nothing; print all that is in force, for every member."
    )(command)
    command = click.option(
        "--reason", type=_Reason(), default="", metavar="TEXT", help="Why, for others who see the status and the log."
    )(command)
    return click.option("--pool", default="", metavar="POOL", help="In this pool alone; else in all that have MEMBER.")(
        command
    )


def lasting_option(command: F) -> F:
    return click.option(
        "--for", "for_s", type=_Span(), metavar="SPAN", help="End by itself after so long, such as 30min or 2h."
    )(command)


def force_option(command: F) -> F:
    return click.option("--force", "regardless", is_flag=True, help="Also if it takes a pool its last usable member.")(
        command
    )


def give(command: str, config: Path, control: Path | None, list_all: bool, member: str | None, **words: Any) -> None:
    """Give the order and print what is in force then. Raises LbdnsError."""
    path = control_path(config, control)
    if list_all and member:
        raise click.UsageError("--list goes without MEMBER")
    if list_all:
        show(order(path, "overrides"), time.time(), "nothing is ordered: every member is as it reports")
        return
    if not member:
        raise click.UsageError("Missing argument 'MEMBER'.")
    said = {key: value for key, value in words.items() if value not in (None, "", False)}
    show(order(path, command, member=member, **said), time.time())


def show(answer: Mapping[str, Any], now: float, nothing: str = "") -> None:
    """Print what has ended, what is in force, and on standard error what somebody may not expect."""
    try:
        lines = [*_ended(answer.get("ended", ())), *_in_force(answer["in_force"], now)]
        notes = list(map(str, answer["notes"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LbdnsError("the server's answer can't be understood; is it of another version?") from None
    for line in lines or [nothing]:
        click.echo(line)
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _in_force(documents: Iterable[Mapping[str, Any]], now: float) -> Iterable[str]:
    for document in documents:
        override = read_override(document)
        until = f" until {clock_time(override.until, now)}" if override.until < math.inf else ""
        where = f" in pool {override.pool}" if override.pool else ""
        forgotten = "" if document["pools"] else " (the configuration has no such member now)"
        yield f"{override.member}{where}: {override.text(until)}{forgotten}"


def _ended(documents: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for document in documents:
        override = read_override(document)
        where = f" in pool {override.pool}" if override.pool else ""
        yield f"{override.member}{where}: no longer {override.text()}"


def clock_time(at: float, now: float) -> str:
    """A moment (Unix seconds) as this machine's clocks show it, with as much of it as is needed."""
    there, here = time.localtime(at), time.localtime(now)
    date = "" if there[:3] == here[:3] else time.strftime("%Y-%m-%d ", there)
    return date + time.strftime("%H:%M:%S" if abs(at - now) < _SOON else "%H:%M", there)

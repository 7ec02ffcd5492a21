"""Options that several tools share: durations in seconds, --repeat and --seed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from lbdns.command_line.common_options import ParsedValue
from lbdns.text.times import parse_duration

F = TypeVar("F", bound=Callable[..., Any])

MAX_REPETITIONS: Final = 1000


def parse_seconds(text: str) -> float:
    """Parse a number of seconds, such as ``90`` or ``1.5``, or a duration, such as ``15min``. Raises ValueError."""
    text = text.strip()
    return parse_duration(f"{text}s" if re.fullmatch(r"\d+(\.\d+)?", text) else text)


SECONDS: Final = ParsedValue(parse_seconds, "S")


def add_options(options: Sequence[Callable[[Any], Any]]) -> Callable[[F], F]:
    """Return a decorator that adds ``options`` to a command; --help lists them in the given order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def repeat_option(help: str) -> Callable[[F], F]:
    return click.option(
        "--repeat", type=click.IntRange(1, MAX_REPETITIONS), default=1, show_default=True, metavar="N", help=help,
    )  # fmt: skip


SEED_OPTION: Final = click.option(
    "--seed", type=click.IntRange(0, 2**62), default=1, show_default=True, metavar="N",
    help="Seed for random numbers. Each repetition increases the seed by 1.",
)  # fmt: skip

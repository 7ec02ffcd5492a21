"""Command-line options that several commands of lbdns-agent share, the conversion of arguments, and error output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from lbdns_agent.agent_options import AUTO, OFF, parse_gateway
from lbdns_agent.webserver.status_page import DEFAULT_URL, StatusUrl, parse_status_url
from lbdns_shared import __version__, log
from lbdns_shared.errors import LbdnsError


def argument_type(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a function that calls ``parse`` and turns errors into ArgumentTypeError.

    Argparse shows only the messages of ArgumentTypeError.
    """

    def parse_argument(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_argument


def parse_server_status(text: str) -> StatusUrl | str | None:
    """Parse the argument of ``--server-status``: AUTO for ``auto``, and None for ``off``. Raises ValueError."""
    if text in (AUTO, OFF):
        return AUTO if text == AUTO else None
    return parse_status_url(text)


def status_page_url(argument: StatusUrl | str | None) -> StatusUrl | None:
    """Return the URL of Apache's status page for the argument of ``--server-status``."""
    return parse_status_url(DEFAULT_URL) if isinstance(argument, str) else argument


def add_sensor_options(add: Callable[..., Any]) -> None:
    """Add the options that select what the sensors read: ``--server-status``, ``--gateway`` and ``--cgroup``."""
    add(
        "--server-status",
        default=AUTO,
        type=argument_type(parse_server_status),
        metavar="auto|URL|off",
        help=f"URL of Apache's status page (auto: {DEFAULT_URL}, or nginx's page if nginx runs instead of Apache)",
    )
    add(
        "--gateway",
        default="auto",
        type=argument_type(parse_gateway),
        metavar="auto|ADDRESS|off",
        help="router to ping (auto: the default gateway)",
    )
    add(
        "--cgroup",
        default="auto",
        metavar="auto|off|PATH",
        help="control group to measure instead of the host (auto: the agent's own group if it has a CPU quota)",
    )


def add_log_options(add: Callable[..., Any]) -> None:
    """Add ``--log-format`` and ``--log-level``."""
    add("--log-format", default="text", choices=log.FORMATS, help="format of log lines (default: text)")
    add(
        "--log-level",
        default="info",
        choices=log.LEVELS,
        help="log only messages at or above this level (default: info)",
    )


def add_version(add: Callable[..., Any]) -> None:
    """Add ``--version``."""
    add("--version", action="version", version=f"lbdns-agent {__version__}")


def print_error(program: str, error: LbdnsError) -> int:
    """Print each line of ``error`` to standard error, after the name of the program. Return the exit status."""
    for line in str(error).splitlines():
        print(f"{program}: {line}", file=sys.stderr)
    return error.exit_status

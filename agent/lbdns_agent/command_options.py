"""Command-line options that several commands of lbdns-agent share, and the conversion of option arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from lbdns_agent.agent_options import OFF, parse_gateway
from lbdns_agent.webserver.status_page import DEFAULT_URL, parse_status_url
from lbdns_shared import __version__, log


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


def add_sensor_options(add: Callable[..., Any]) -> None:
    """Add the options that select what the sensors read: ``--server-status``, ``--gateway`` and ``--cgroup``."""
    add(
        "--server-status",
        default=parse_status_url(DEFAULT_URL),
        type=argument_type(lambda text: None if text == OFF else parse_status_url(text)),
        metavar="URL|off",
        help=f"URL of the web server's status page (default: {DEFAULT_URL})",
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

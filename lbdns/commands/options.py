"""The options that several commands have, so that they read and behave the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lbdns.config import DEFAULT_FILE, load_config
from lbdns.log import FORMATS, LEVELS

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    """``-c``: the configuration, as a Path that need not exist; reading it says so better."""
    return click.option(
        "-c",
        "--config",
        type=click.Path(path_type=Path),
        default=DEFAULT_FILE,
        show_default=True,
        metavar="FILE",
        help="The configuration (TOML).",
    )(command)


def control_option(command: F) -> F:
    """``--control``, for the commands that give a running server orders."""
    return click.option(
        "--control",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="The server's control socket, instead of the one that FILE names.",
    )(command)


def control_path(config: Path, control: Path | None) -> Path:
    """Where the server takes orders. Raises ConfigError."""
    return control if control is not None else load_config(config).server.control


def log_options(level: str = "info") -> Callable[[F], F]:
    """``--log-format`` and ``--log-level``, for the commands that run on."""

    def decorate(command: F) -> F:
        command = click.option(
            "--log-level",
            type=click.Choice(LEVELS),
            default=level,
            show_default=True,
            help="Log nothing below this level.",
        )(command)
        return click.option(
            "--log-format",
            type=click.Choice(FORMATS),
            default="text",
            show_default=True,
            help="One line an event, on standard error.",
        )(command)

    return decorate

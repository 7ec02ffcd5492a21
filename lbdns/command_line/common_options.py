"""Command-line options that several commands share, so that they look and behave the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lbdns.config import DEFAULT_FILE, load_config
from lbdns_shared.log import FORMATS, LEVELS

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    """Add ``-c``, the path of the configuration. The file need not exist: reading it gives the better error."""
    return click.option(
        "-c",
        "--config",
        type=click.Path(path_type=Path),
        default=DEFAULT_FILE,
        envvar="LBDNS_CONFIG",
        show_envvar=True,
        show_default=True,
        metavar="FILE",
        help="The configuration file (TOML).",
    )(command)


def control_option(command: F) -> F:
    """Add ``--control``, for commands that control a running server."""
    return click.option(
        "--control",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="The control socket of the server, instead of the one that FILE names.",
    )(command)


def control_path(config: Path, control: Path | None) -> Path:
    """Return the path of the server's control socket. Raises ConfigError."""
    return control if control is not None else load_config(config).server.control


def log_options(level: str = "info") -> Callable[[F], F]:
    """Add ``--log-format`` and ``--log-level``, for long-running commands."""

    def decorate(command: F) -> F:
        command = click.option(
            "--log-level",
            type=click.Choice(LEVELS),
            default=level,
            show_default=True,
            help="Log only messages of at least this level.",
        )(command)
        return click.option(
            "--log-format",
            type=click.Choice(FORMATS),
            default="text",
            show_default=True,
            help="Format of log lines, on standard error.",
        )(command)

    return decorate

"""Command-line options that are shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lbdns.config import DEFAULT_FILE, load_sections
from lbdns.text.times import parse_duration
from lbdns_shared.log import FORMATS, LEVELS

F = TypeVar("F", bound=Callable[..., Any])


class ParsedValue(click.ParamType[Any]):
    """A click option type that converts text with ``parse`` and turns ValueError into a usage error."""

    def __init__(self, parse: Callable[[str], Any], metavar: str) -> None:
        self._parse = parse
        self.name = metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.name


DURATION: Final = ParsedValue(parse_duration, "DURATION")


def file_option(default: str, variable: str) -> Callable[[F], F]:
    """Return a decorator that adds the option ``-c FILE``.

    The environment ``variable`` takes precedence over the ``default``. Click does not check that FILE exists, because
    the later error from reading FILE is clearer.
    """
    return click.option(
        "-c", "--config", type=click.Path(path_type=Path), default=default, show_default=True,
        envvar=variable, show_envvar=True, metavar="FILE", help="The configuration file (TOML).",
    )  # fmt: skip


#: The option ``-c`` for lbdns.toml
config_option: Final = file_option(DEFAULT_FILE, "LBDNS_CONFIG")


def url_option(command: F) -> F:
    """Add the option ``--url`` to a command that reads from a running server over HTTP."""
    help = "URL of the server, such as http://127.0.0.1:8053. Default: the address in FILE."
    return click.option("--url", help=help)(command)


def control_option(command: F) -> F:
    """Add the option ``--control`` to a command that controls a running server."""
    help = "Control socket of the server. Default: the path in FILE."
    return click.option("--control", type=click.Path(path_type=Path), metavar="PATH", help=help)(command)


def control_path(config: Path, control: Path | None) -> Path:
    """Return the path of the server's control socket. Raises ConfigError."""
    return control if control is not None else load_sections(config, "server").server.control


def log_level_option(default: str, help: str = "Log only messages at or above this level.") -> Callable[[F], F]:
    return click.option("--log-level", type=click.Choice(LEVELS), default=default, show_default=True, help=help)


def log_options(command: F) -> F:
    """Add the options ``--log-format`` and ``--log-level`` to a long-running command."""
    return click.option(
        "--log-format", type=click.Choice(FORMATS), default="text", show_default=True,
        help="Format of the log lines on standard error.",
    )(log_level_option("info")(command))  # fmt: skip

"""Parses command lines that contain options of lbdns-load, for tests."""

from __future__ import annotations

from typing import Any

import click

from lbdns_tools.load.load_options import check_options, load_options


def said(*arguments: str) -> dict[str, Any]:
    """Return the values of the options on a command line. Raises click.UsageError."""

    @click.command()
    @load_options
    def command(**values: Any) -> dict[str, Any]:
        return values

    values: dict[str, Any] = command.main(list(arguments), "lbdns-load", standalone_mode=False)
    check_options(values)
    return values

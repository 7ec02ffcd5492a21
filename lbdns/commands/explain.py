"""``lbdns explain``: why the next answer for a name would be what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click
from rich.console import Console

from lbdns.commands.options import config_option, control_option
from lbdns.commands.status import is_off, place_of
from lbdns.commands.terminal.explanation import explanation_lines
from lbdns.config import load_config
from lbdns.control_client import order
from lbdns.errors import LbdnsError
from lbdns.http_client import fetch

EXPLAIN: Final = "/api/v1/explain"


@click.command(
    epilog="Exit status: 0 when the server explained, 1 for a name that no pool is asked by or no server, 2 for bad "
    "arguments or a bad configuration."
)
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print what the server answers as it is.")
@click.option("--url", help="Where its HTTP is, such as http://127.0.0.1:8053; asks there instead of reading FILE.")
@control_option
@config_option
def explain(name: str, as_json: bool, url: str | None, control: Path | None, config: Path) -> None:
    """Tell why the next answer for NAME would be what it is: who is next, and of each member what decides that.

    NAME is one that a pool is asked by, in full (best.hobbit) or without its zone (best). Looking moves nothing: who
    is next is next afterwards, too. Asks over HTTP as 'lbdns status' does, or through the control socket: with
    --control, and where [web] is off.

    \b
    Examples:
      lbdns explain best.hobbit
      lbdns explain round.robin --json
      lbdns explain best --control /run/lbdns/control.sock
    """
    document, where = _ask(name, url, control, config)
    console = Console(highlight=False)
    try:
        lines = list(explanation_lines(document))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LbdnsError(f"{where}: what answers there is not lbdns: no explanation: {error!r}") from None
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    for line in lines:
        console.print(line)


def _ask(name: str, url: str | None, control: Path | None, config: Path) -> tuple[Any, str]:
    """The explanation, and where it is from. Raises LbdnsError."""
    if control is None and url is None and is_off(config):
        control = load_config(config).server.control
    if control is not None:
        return order(control, "explain", name=name).get("explanation"), str(control)
    base, credentials = place_of(url, config)
    body = fetch(base, f"{EXPLAIN}?{urlencode({'name': name})}", credentials)
    try:
        return json.loads(body), base
    except ValueError as error:
        raise LbdnsError(f"{base}: what answers there is not lbdns: no explanation in its {EXPLAIN}: {error}") from None

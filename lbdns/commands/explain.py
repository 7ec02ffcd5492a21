"""``lbdns explain``: print which member the next answer for a name selects, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click
from rich.console import Console

from lbdns.client.control_client import send_command
from lbdns.client.http_client import fetch
from lbdns.client.server_location import http_location, serves_no_http
from lbdns.command_line.common_options import config_option, control_option
from lbdns.commands.terminal.explanation import explanation_lines
from lbdns.config import load_config
from lbdns_shared.errors import LbdnsError

EXPLAIN: Final = "/api/v1/explain"


@click.command(
    epilog="Exit status: 0 success, 1 if no pool serves the name or the server does not respond, 2 for bad "
    "arguments or a configuration that is not valid."
)
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print the server's full explanation as JSON.")
@click.option("--url", help="The server's URL, such as http://127.0.0.1:8053, instead of the one in FILE.")
@control_option
@config_option
def explain(name: str, as_json: bool, url: str | None, control: Path | None, config: Path) -> None:
    """Explain which member the next answer for NAME selects, and what decides that for each member.

    NAME is a name of a pool, with its zone (best.hobbit) or without (best). The command does not advance the rotation.
    It reads the explanation over HTTP like 'lbdns status', or through the control socket if --control is given or [web]
    is off.

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
        raise LbdnsError(f"{where}: the response is not from lbdns: no explanation: {error!r}") from None
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    for line in lines:
        console.print(line)


def _ask(name: str, url: str | None, control: Path | None, config: Path) -> tuple[Any, str]:
    """Return the explanation and its source. Raises LbdnsError."""
    if control is None and url is None and serves_no_http(config):
        control = load_config(config).server.control
    if control is not None:
        return send_command(control, "explain", name=name).get("explanation"), str(control)
    base, credentials = http_location(url, config)
    body = fetch(base, f"{EXPLAIN}?{urlencode({'name': name})}", credentials)
    try:
        return json.loads(body), base
    except ValueError as error:
        raise LbdnsError(f"{base}: the response is not from lbdns: no explanation in its {EXPLAIN}: {error}") from None

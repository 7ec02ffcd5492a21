"""``lbdns status``: print the members of a running server, as a table or as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lbdns.client.http_client import STATUS_PATH, fetch
from lbdns.client.server_location import http_location
from lbdns.command_line.common_options import config_option
from lbdns.commands.status_table import show
from lbdns_shared.errors import LbdnsError


@click.command(epilog="Exit status: 0 success, 1 if the server does not respond, 2 if the configuration is not valid.")
@click.option("--json", "as_json", is_flag=True, help="Print the server's full status as JSON.")
@click.option("--url", help="The server's URL, such as http://127.0.0.1:8053, instead of the one in FILE.")
@config_option
def status(as_json: bool, url: str | None, config: Path) -> None:
    """Show the members of a running server: state, score, age of the last report, share of the answers.

    The command reads the status over HTTP, from the address in [web] of the configuration, or from the default
    address if there is no configuration.

    \b
    Examples:
      lbdns status
      lbdns status --url http://127.0.0.1:8053 --json
    """
    base, credentials = http_location(url, config)
    body = fetch(base, STATUS_PATH, credentials)
    try:
        answer = json.loads(body)
        if as_json:
            click.echo(json.dumps(answer, indent=2))
        else:
            show(answer)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LbdnsError(f"{base}: the response is not from lbdns: no status in its {STATUS_PATH}") from None

"""``lbdns-scaler status``: the state of a running scaler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click

from lbdns.client.http_client import HttpLocation, fetch
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.scaler.running.run_command import scaler_config_option, settings_of
from lbdns_tools.scaler.running.status_server import STATUS_PATH
from lbdns_tools.scaler.running.terminal_view import status_text

SCALER: Final = "'lbdns-scaler run' running, with [scaler] listen"


@click.command()
@scaler_config_option
@click.option("--url", help="URL of the scaler, such as http://127.0.0.1:8054. Default: the address in FILE.")
@click.option("--json", "json_output", is_flag=True, help="Print the status document as JSON.")
def status(config: Path, url: str | None, json_output: bool) -> None:
    """Print the servers of a running scaler, its last decision and the reason.

    \b
    Examples:
      lbdns-scaler status
      lbdns-scaler status --url http://127.0.0.1:8054 --json
    """
    body = fetch(HttpLocation(url or _url_of(config)), STATUS_PATH, SCALER)
    try:
        document = json.loads(body)
        text = json.dumps(document, indent=2) if json_output else status_text(document)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LbdnsError(f"{url or config}: the response is not from lbdns-scaler") from None
    print(text)


def _url_of(config: Path) -> str:
    listen = settings_of(config, "or name the scaler with --url").scaler.listen
    if listen is None:
        raise ConfigError(f'{config}: [scaler] listen is "off", so the scaler has no HTTP address')
    return f"http://{listen}"

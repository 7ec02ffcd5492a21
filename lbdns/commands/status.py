"""``lbdns status``: what a running server thinks of its members, as a table or as JSON."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import click

from lbdns.commands.options import config_option
from lbdns.commands.status_table import show
from lbdns.config import DEFAULT_FILE, load_config
from lbdns.endpoint import HTTP_PORT, Endpoint
from lbdns.errors import ConfigError, LbdnsError
from lbdns.http_client import STATUS, credentials_of, fetch
from lbdns.http_credentials import Credentials


@click.command(epilog="Exit status: 0 when the server answered, 1 when not, 2 for a bad configuration.")
@click.option("--json", "as_json", is_flag=True, help="Print what the server answers as it is.")
@click.option("--url", help="Where its HTTP is, such as http://127.0.0.1:8053; asks there instead of reading FILE.")
@config_option
def status(as_json: bool, url: str | None, config: Path) -> None:
    """Show the members of a running server: state, score, age of the last report, share of the answers.

    Asks the server over HTTP, at the address that [web] of the configuration names, or at the one a server has
    without a configuration if there is none.

    \b
    Examples:
      lbdns status
      lbdns status --url http://127.0.0.1:8053 --json
    """
    base, credentials = place_of(url, config)
    body = fetch(base, STATUS, credentials)
    try:
        answer = json.loads(body)
        if as_json:
            click.echo(json.dumps(answer, indent=2))
        else:
            show(answer)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LbdnsError(f"{base}: what answers there is not lbdns: no status in its {STATUS}") from None


def place_of(url: str | None, config: Path) -> tuple[str, Credentials]:
    """Where to ask, and what to send: at ``url`` what the environment says, which somebody has chosen for it; else what
    the configuration asks of its readers. Raises ConfigError."""
    return (url, credentials_of()) if url is not None else (url_of(config), credentials_of(config))


def is_off(config: Path) -> bool:
    """Whether a server with this configuration serves no HTTP. Raises ConfigError."""
    return (config != Path(DEFAULT_FILE) or config.exists()) and load_config(config).web.listen is None


def url_of(config: Path) -> str:
    """Where a server with this configuration serves HTTP, or the demo does if there is none at the usual place.

    Raises ConfigError.
    """
    if config == Path(DEFAULT_FILE) and not config.exists():
        return f"http://{Endpoint('127.0.0.1', HTTP_PORT)}"
    web = load_config(config).web.listen
    if web is None:
        raise ConfigError(f'{config}: [web] listen: is "off", so the server can\'t be asked; or say --url')
    address = ipaddress.ip_address(web.host.partition("%")[0])
    if address.is_unspecified:  # listening everywhere includes the loopback
        return f"http://{Endpoint('127.0.0.1' if address.version == 4 else '::1', web.port)}"
    return f"http://{web}"

"""``lbdns status``: what a running server thinks of its members, as a table or as JSON."""

from __future__ import annotations

import http.client
import ipaddress
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from lbdns.commands.options import config_option
from lbdns.commands.status_table import show
from lbdns.config import DEFAULT_FILE, load_config
from lbdns.endpoint import HTTP_PORT, Endpoint
from lbdns.errors import ConfigError, LbdnsError

TIMEOUT: Final = 5.0  # seconds: a server on the same machine answers in milliseconds, or is stuck
MAX_BODY: Final = 64 * 2**20  # bytes: 10,000 members take about 6 MB
PATH: Final = "/api/v1/status"


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
    base = url if url is not None else url_of(config)
    body = fetch(base)
    try:
        answer = json.loads(body)
        if as_json:
            click.echo(json.dumps(answer, indent=2))
        else:
            show(answer)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LbdnsError(f"{base}: what answers there is not lbdns: no status in its {PATH}") from None


def url_of(config: Path) -> str:
    """Where a server with this configuration serves HTTP, or the demo does if there is none at the usual place.

    Raises ConfigError.
    """
    if config == Path(DEFAULT_FILE) and not config.exists():
        return f"http://{Endpoint('127.0.0.1', HTTP_PORT)}"
    web = load_config(config).web
    if web is None:
        raise ConfigError(f'{config}: [web] listen: is "off", so the server can\'t be asked; or say --url')
    address = ipaddress.ip_address(web.host.partition("%")[0])
    if address.is_unspecified:  # listening everywhere includes the loopback
        return f"http://{Endpoint('127.0.0.1' if address.version == 4 else '::1', web.port)}"
    return f"http://{web}"


def fetch(base: str) -> bytes:
    """The body of the status below ``base``. Raises LbdnsError when nothing, or something else, answers."""
    if urlsplit(base).scheme not in ("http", "https") or not urlsplit(base).netloc:
        raise click.BadParameter(f"{base!r} is no URL, such as http://127.0.0.1:8053", param_hint="--url")
    # No proxy: the environment's is for the outside, and the server is usually on this machine
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(base.rstrip("/") + PATH, timeout=TIMEOUT) as response:
            body: bytes = response.read(MAX_BODY)
    except urllib.error.HTTPError as error:
        raise LbdnsError(f"{base}: what answers there is not lbdns: {PATH} is {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LbdnsError(f"{base}: no answer: {_reason(error)}. Is 'lbdns serve' running, with [web] there?") from None
    return body


def _reason(error: Any) -> str:
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner or type(inner).__name__)

"""Find the server that a command contacts: its HTTP address, its credentials and its DNS address."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Final

from lbdns.client.http_client import HttpLocation, find_credentials
from lbdns.config import DEFAULT_FILE, load_sections
from lbdns_shared.endpoint import DNS_PORT, Endpoint
from lbdns_shared.errors import ConfigError

RESOLV_CONF: Final = Path("/etc/resolv.conf")


def http_location(url: str | None, config: Path) -> HttpLocation:
    """Return the location of a server.

    If ``url`` is given, only credentials from the environment are used, because the user who chose the URL also set
    the environment. Without ``url``, the location and the credentials come from the configuration, but credentials from
    the environment take precedence. Raises ConfigError.
    """
    if url is not None:
        return HttpLocation.of_url(url)
    return HttpLocation(url_of(config), find_credentials(config), load_sections(config, "web").web.tls_cert)


def serves_no_http(config: Path) -> bool:
    """Return whether the configuration disables HTTP. Raises ConfigError."""
    return load_sections(config, "web").web.listen is None


def url_of(config: Path) -> str:
    """Return the HTTP URL of the server that is configured in ``config``. Raises ConfigError."""
    web = load_sections(config, "web").web
    if web.listen is None:
        raise ConfigError(
            f'{config}: [web] listen is "off", so the server has no HTTP address; specify a URL with --url'
        )
    return f"{web.scheme}://{_reachable(web.listen)}"


def dns_server_of(config: Path, resolv_conf: Path = RESOLV_CONF) -> Endpoint:
    """Return the DNS address of the server that is configured in ``config``.

    If ``config`` is the default path and this file does not exist, return the first name server in ``resolv_conf``.
    Raises ConfigError.
    """
    if not _is_missing(config):
        return _reachable(load_sections(config, "server").server.listen[0])
    lines = resolv_conf.read_text("utf-8", "replace").splitlines() if resolv_conf.exists() else []
    for words in map(str.split, lines):
        if len(words) > 1 and words[0] == "nameserver":
            return Endpoint(words[1], DNS_PORT)
    raise ConfigError(
        f"{config} does not exist and {resolv_conf} lists no name server; specify a server, such as @127.0.0.1:5300"
    )


def _is_missing(config: Path) -> bool:
    """Return True if ``config`` is the default path and this file does not exist."""
    return config == Path(DEFAULT_FILE) and not config.exists()


def _reachable(listen: Endpoint) -> Endpoint:
    """Return an address at which local clients can reach ``listen`` (for a wildcard, the loopback address)."""
    address = ipaddress.ip_address(listen.host.partition("%")[0])
    if not address.is_unspecified:
        return listen
    return Endpoint("127.0.0.1" if address.version == 4 else "::1", listen.port)

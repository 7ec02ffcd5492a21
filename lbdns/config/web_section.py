"""``[web]``: the address of the web pages, and the clients that may read them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import Network, optional_path, parse_network, section
from lbdns_shared.endpoint import HTTP_PORT, Endpoint, parse_listen


@dataclass(frozen=True, slots=True)
class WebConfig:
    """``listen`` is None if HTTP is off. ``allow``: the networks that may read; the loopback always may."""

    listen: Endpoint | None = Endpoint("127.0.0.1", HTTP_PORT)
    allow: tuple[Network, ...] = ()
    user: str = ""  # with ``password_file``: HTTP basic authentication (RFC 7617)
    password_file: Path | None = None
    token_file: Path | None = None  # a bearer token (RFC 6750), accepted as well
    max_member_series: int = 2000  # with more members than this, /metrics has no series for single members


def read_web(root: TomlTable, base: Path) -> WebConfig:
    """Return the section; errors go to the table."""
    table = section(root, "web")
    default = WebConfig()
    web = WebConfig(
        listen=_listen(table),
        allow=table.each("allow", default.allow, parse_network),
        user=table.string("user"),
        password_file=optional_path(table, "password_file", base),
        token_file=optional_path(table, "token_file", base),
        max_member_series=table.integer("max_member_series", default.max_member_series, 0, 10**6),
    )
    if bool(web.user) != bool(web.password_file):
        missing = "password_file" if web.user else "user"
        table.wrong(missing, "is missing; user and password_file must be set together")
    if ":" in web.user:
        table.wrong("user", "must not contain a colon (HTTP basic authentication, RFC 7617 section 2)")
    if web.listen and not web.allow and not ipaddress.ip_address(web.listen.host.partition("%")[0]).is_loopback:
        table.wrong(
            "allow", f'is missing; other machines reach {web.listen}, so name your networks: allow = ["10.0.0.0/8"]'
        )
    table.end()
    return web


def _listen(table: TomlTable) -> Endpoint | None:
    default = Endpoint("127.0.0.1", HTTP_PORT)
    text = table.string("listen", str(default))
    if text == "off":
        return None
    try:
        return parse_listen(text, HTTP_PORT)
    except ValueError as error:
        table.wrong("listen", f'{error}; or "off"')
        return default

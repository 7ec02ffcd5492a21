"""``[web]``: where the pages are, and for whom."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from lbdns.config.reading import Network, optional_path, parse_network, section
from lbdns.endpoint import HTTP_PORT, Endpoint, parse_listen
from lbdns.toml_table import Table


@dataclass(frozen=True, slots=True)
class WebConfig:
    """``listen`` is None where HTTP is off. ``allow`` are the networks that may read; the loopback always may."""

    listen: Endpoint | None = Endpoint("127.0.0.1", HTTP_PORT)
    allow: tuple[Network, ...] = ()
    user: str = ""  # with ``password_file``: HTTP basic authentication (RFC 7617)
    password_file: Path | None = None
    token_file: Path | None = None  # a bearer token (RFC 6750) that is taken as well
    max_member_series: int = 2000  # members that /metrics tells of one by one


def read_web(root: Table, base: Path) -> WebConfig:
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
        table.wrong(missing, "is missing: user and password_file go together")
    if ":" in web.user:
        table.wrong("user", "has a colon, which HTTP basic authentication can't say (RFC 7617 section 2)")
    if web.listen and not web.allow and not ipaddress.ip_address(web.listen.host.partition("%")[0]).is_loopback:
        table.wrong(
            "allow", f'is missing: {web.listen} is no loopback; say who may read, such as allow = ["10.0.0.0/8"]'
        )
    table.end()
    return web


def _listen(table: Table) -> Endpoint | None:
    default = Endpoint("127.0.0.1", HTTP_PORT)
    text = table.string("listen", str(default))
    if text == "off":
        return None
    try:
        return parse_listen(text, HTTP_PORT)
    except ValueError as error:
        table.wrong("listen", f'{error}; or "off"')
        return default

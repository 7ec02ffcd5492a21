"""``[cookies]``: DNS cookies (RFC 7873), by which the server knows that a client really has its address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lbdns.config.reading import optional_path, section
from lbdns.toml_table import Table


@dataclass(frozen=True, slots=True)
class CookiesConfig:
    """``secret_file`` holds what servers that answer for one address share; without it a secret is made at start."""

    secret_file: Path | None = None
    udp_without: int = 512  # bytes: longer answers over UDP need a valid cookie, so that nobody is flooded through us


def read_cookies(root: Table, base: Path) -> CookiesConfig:
    table = section(root, "cookies")
    default = CookiesConfig()
    cookies = CookiesConfig(
        secret_file=optional_path(table, "secret_file", base),
        udp_without=table.integer("udp_without", default.udp_without, 512, 1232),
    )
    table.end()
    return cookies

"""``[cookies]``: DNS cookies (RFC 7873), which prove that a client owns its source address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import optional_path, section


@dataclass(frozen=True, slots=True)
class CookiesConfig:
    """``secret_file`` holds the secrets that servers behind one address share; without it the server creates one."""

    secret_file: Path | None = None
    udp_without: int = 512  # bytes; longer UDP answers require a valid cookie, which prevents amplification


def read_cookies(root: TomlTable, base: Path) -> CookiesConfig:
    """Return the section; errors go to the table."""
    table = section(root, "cookies")
    default = CookiesConfig()
    cookies = CookiesConfig(
        secret_file=optional_path(table, "secret_file", base),
        udp_without=table.integer("udp_without", default.udp_without, 512, 1232),
    )
    table.end()
    return cookies

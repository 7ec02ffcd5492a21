"""Readers that several sections share: optional sections, paths, domain names and networks."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final

from lbdns.config.toml_reader import TomlPlace, TomlTable

HOST_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\Z")
MAX_NAME: Final = 253  # characters: 255 octets in wire form, RFC 1035 section 2.3.4

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def section(root: TomlTable, name: str) -> TomlTable:
    """Return the table ``[name]``, empty if the file has none."""
    return root.table(name, TomlPlace(name)) or TomlTable({}, TomlPlace(name), root.findings)


def domain_name(table: TomlTable, key: str, text: str) -> str:
    """Return a domain name in lower case without its final dot; report one that is not valid."""
    name = text.lower().removesuffix(".")
    if len(name) > MAX_NAME or (name and not HOST_NAME.match(name.replace("/", "-"))):
        table.wrong(key, f"{text!r} is not a valid domain name")
    return name


def optional_path(table: TomlTable, key: str, base: Path) -> Path | None:
    """Return a path, relative paths resolved against ``base``; None if the key is absent."""
    text = table.string(key)
    return base / text if text else None


def parse_network(text: str) -> Network:
    """Return the network that ``text`` names: one address, or ADDRESS/BITS. Raises ValueError."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; write a network such as 10.0.0.0/8 or 2001:db8::/32, or one address") from None

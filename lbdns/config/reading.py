"""What the readers of several sections share: a section that may be missing, paths, domain names, networks."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final

from lbdns.toml_table import Place, Table

HOST_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\Z")
MAX_NAME: Final = 253  # characters: 255 octets in wire form, RFC 1035 section 2.3.4

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def section(root: Table, name: str) -> Table:
    """The table ``[name]``, empty if the file has none."""
    return root.table(name, Place(name)) or Table({}, Place(name), root.findings)


def domain_name(table: Table, key: str, text: str) -> str:
    """A domain name in lower case without its final dot."""
    name = text.lower().removesuffix(".")
    if len(name) > MAX_NAME or (name and not HOST_NAME.match(name.replace("/", "-"))):
        table.wrong(key, f"{text!r} is no domain name")
    return name


def optional_path(table: Table, key: str, base: Path) -> Path | None:
    """A path relative to the configuration's folder; None if the key is missing."""
    text = table.string(key)
    return base / text if text else None


def parse_network(text: str) -> Network:
    """An address or a network as ADDRESS/BITS. Raises ValueError."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; write a network such as 10.0.0.0/8 or 2001:db8::/32, or one address") from None

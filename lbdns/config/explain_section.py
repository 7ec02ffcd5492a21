"""``[explain]``: which clients may query explanations over DNS."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import Network, parse_network, section


@dataclass(frozen=True, slots=True)
class ExplainConfig:
    #: Clients that may query ``explain.NAME TXT``; for all others that name does not exist
    allow: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


def read_explain(root: TomlTable) -> ExplainConfig:
    """Return the section; errors go to the table."""
    table = section(root, "explain")
    default = ExplainConfig()
    explain = ExplainConfig(allow=table.each("allow", default.allow, parse_network))
    table.end()
    return explain

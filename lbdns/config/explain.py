"""``[explain]``: who is told over DNS why a name is answered as it is."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from lbdns.config.reading import Network, parse_network, section
from lbdns.toml_table import Table


@dataclass(frozen=True, slots=True)
class ExplainConfig:
    #: Who may ask for ``explain.NAME TXT``; for all others that name does not exist
    allow: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


def read_explain(root: Table) -> ExplainConfig:
    table = section(root, "explain")
    default = ExplainConfig()
    explain = ExplainConfig(allow=table.each("allow", default.allow, parse_network))
    table.end()
    return explain

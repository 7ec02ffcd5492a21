"""Writes and parses the file with the servers of an nginx ``upstream`` block. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lbdns_shared.endpoint import Endpoint, parse_endpoint

HEADER: Final = "# Written by lbdns-scaler, which overwrites changes. Include it in an upstream block.\n"
#: nginx refuses an upstream block without servers
PLACEHOLDER: Final = "server 127.0.0.1:1 down;\n"
_LINE: Final = re.compile(r"server (?P<where>\S+)(?P<options>( [^\s;]+)*);  # (?P<name>\S+)\Z")
_DOWN: Final = "down"


@dataclass(frozen=True, slots=True)
class UpstreamServer:
    """A server in the file. nginx sends no new requests to a server that is ``down``."""

    address: str
    down: bool


def upstream_text(servers: Mapping[str, UpstreamServer], port: int, options: str) -> str:
    """Return the text of the file. The comment at the end of each line is the server's name."""
    lines = []
    for name, server in servers.items():
        words = ["server", str(Endpoint(server.address, port)), *options.split(), *([_DOWN] if server.down else [])]
        lines.append(f"{' '.join(words)};  # {name}\n")
    return HEADER + ("".join(lines) or PLACEHOLDER)


def parse_upstream(text: str) -> dict[str, UpstreamServer]:
    """Return the servers in the file, by name. Raises ValueError if lbdns-scaler has not written the file."""
    found = {}
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line in (HEADER, PLACEHOLDER):
            continue
        match = _LINE.match(line.rstrip("\n"))
        if not match:
            raise ValueError(f"line {number}: {line.strip()!r} was not written by lbdns-scaler; choose another file")
        address = parse_endpoint(match["where"], 0).host
        found[match["name"]] = UpstreamServer(str(ipaddress.ip_address(address)), _DOWN in match["options"].split())
    return found

"""Parses HOST:PORT, with IPv6 addresses in brackets. The parser is a pure function and never resolves names."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

DNS_PORT = 53
REPORT_PORT = 7777
HTTP_PORT = 8053


@dataclass(frozen=True)
class Endpoint:
    """A port on a host, which is either a name or an IP address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_address(self) -> bool:
        """True if the host is an IP address, and False if the host is a name."""
        return _ip_version(self.host.partition("%")[0]) is not None


def parse_endpoint(text: str, default_port: int) -> Endpoint:
    """Parse ``HOST``, ``HOST:PORT``, ``[IPv6]:PORT`` or a bare IPv6 address. Raises ValueError."""
    host, port = text.strip(), ""
    bracketed = host.startswith("[")
    if bracketed:
        host, bracket, rest = host[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not a HOST:PORT pair; write an IPv6 address as [::1]:{default_port}")
        port = rest[1:]
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    wants_ipv6 = bracketed or ":" in host
    if not host or any(c.isspace() or c in "/[]" for c in host) or wants_ipv6 != (_ip_version(host) == 6):
        raise ValueError(f"{text!r} is not a HOST:PORT pair such as 127.0.0.1:{default_port}")
    if not port:
        return Endpoint(host, default_port)
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f"{text!r}: the port must be a number from 0 to 65535, not {port!r}")
    return Endpoint(host, int(port))


def _ip_version(host: str) -> int | None:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def parse_listen(text: str, default_port: int) -> Endpoint:
    """Parse an endpoint to listen on, whose host must be an IP address. Raises ValueError."""
    endpoint = parse_endpoint(text, default_port)
    if not endpoint.is_address:
        raise ValueError(
            f"{text!r}: the address to listen on must be an IP address, such as 127.0.0.1:{endpoint.port}, not a name"
        )
    return endpoint

"""Parses HOST:PORT, with IPv6 addresses in brackets. The parser is a pure function and never resolves names."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

DNS_PORT = 53
REPORT_PORT = 7777
HTTP_PORT = 8053
_PORT = re.compile(r"[0-9]{1,5}\Z")
_LIKE_IPV4 = re.compile(r"[0-9]+(\.[0-9]+)+\.?\Z")


@dataclass(frozen=True)
class Endpoint:
    """A host and a port. The host is either a name or an IP address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_address(self) -> bool:
        """Whether the host is an IP address rather than a name."""
        return _ip_version(self.host.partition("%")[0]) is not None


def parse_endpoint(text: str, default_port: int) -> Endpoint:
    """Parse ``HOST``, ``HOST:PORT``, ``[IPv6]:PORT`` or a bare IPv6 address. Raises ValueError.

    A bare IPv6 address that could also be a shorter address and a port, such as ``::1:53``, is an error.
    """
    host, port = text.strip(), ""
    bracketed = host.startswith("[")
    if bracketed:
        host, bracket, rest = host[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not a HOST:PORT pair; write an IPv6 address as [::1]:{default_port}")
        port = rest[1:]
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    else:
        _check_no_port(host)
    wants_ipv6 = bracketed or ":" in host
    if not host or any(c.isspace() or c in "/[]" for c in host) or wants_ipv6 != (_ip_version(host) == 6):
        fault = address_fault(host) if wants_ipv6 and host.count(":") > 1 else ""
        reason = f": {fault}" if fault else ""
        raise ValueError(f"{text!r} is not a HOST:PORT pair such as 127.0.0.1:{default_port}{reason}")
    if _LIKE_IPV4.match(host) and (fault := address_fault(host)):
        raise ValueError(f"{text!r} is not a valid IPv4 address: {fault}")
    if not port:
        return Endpoint(host, default_port)
    if not _PORT.match(port) or int(port) > 65535:
        raise ValueError(f"{text!r}: the port must be a number from 0 to 65535, not {port!r}")
    return Endpoint(host, int(port))


def _check_no_port(text: str) -> None:
    """Raise ValueError if ``text`` seems to be an IPv6 address without brackets, followed by a port."""
    address, _, port = text.rpartition(":")
    if _ip_version(address) != 6 or not _PORT.match(port):
        return
    if _ip_version(text) is None or "%" in text:
        raise ValueError(f"{text!r}: an IPv6 address with a port must be in brackets; write [{address}]:{port}")
    raise ValueError(
        f"{text!r} is ambiguous; write [{address}]:{port} for port {port}, or [{text}] for the address {text}"
    )


def _ip_version(host: str) -> int | None:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def address_fault(text: str) -> str:
    """Return what is wrong with an IP address, or an empty string if ``text`` is a valid address. Pure."""
    if _ip_version(text) is not None:
        return ""
    return _ipv6_fault(text) if ":" in text else _ipv4_fault(text)


def _ipv4_fault(text: str) -> str:
    parts = text.split(".")
    for part in parts:
        if not re.fullmatch("[0-9]+", part):
            return f"{part!r} is not a number from 0 to 255" if part else "a number is missing before or after a dot"
        if len(part) > 3 or int(part) > 255:
            return f"the number {part} is greater than 255"
        if len(part) > 1 and part[0] == "0":
            return f"the number {part} must not begin with 0"
    return f"an IPv4 address consists of four numbers, but {text!r} has {len(parts)}"


def _ipv6_fault(text: str) -> str:
    if text.count("::") > 1:
        return "'::' must appear only once"
    groups = text.partition("%")[0].split(":")
    if "." in groups[-1] and _ip_version(groups[-1]) is None:
        return _ipv4_fault(groups[-1])
    for group in groups[:-1] if "." in groups[-1] else groups:
        if not re.fullmatch("[0-9A-Fa-f]{0,4}", group):
            return f"the group {group!r} must consist of one to four hexadecimal digits"
    count = sum(2 if "." in group else 1 for group in groups if group)
    if count > 8 or "::" not in text:
        return f"an IPv6 address consists of eight groups, but {text!r} has {count}"
    return f"{text!r} must not begin or end with a single colon"


def parse_listen(text: str, default_port: int) -> Endpoint:
    """Parse an endpoint to listen on. Its host must be an IP address. Raises ValueError."""
    endpoint = parse_endpoint(text, default_port)
    if not endpoint.is_address:
        raise ValueError(
            f"{text!r}: the address to listen on must be an IP address, such as 127.0.0.1:{endpoint.port}, not a name"
        )
    return endpoint

"""The network of a client, used by per-client limits because an IPv6 client has a whole /64 of addresses. Pure."""

from __future__ import annotations

import ipaddress
from typing import Final

_IPV6_SITE: Final = 64  # bits of an IPv6 address that one client cannot choose


def plain_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address without ``%INTERFACE``, and as an IPv4 address if it is IPv4-mapped. Raises ValueError."""
    found = ipaddress.ip_address(address.partition("%")[0])
    return (found.ipv4_mapped or found) if found.version == 6 else found


def plain_text(address: str) -> str:
    """Return the address, as IPv4 if it is IPv4-mapped, in the form used in master files. Return an invalid address
    unchanged.

    RFC 4291, section 2.5.5.2, defines IPv4-mapped addresses.
    """
    try:
        return str(plain_address(address))
    except ValueError:
        return address


def client_network(address: str) -> str:
    """Return the network that counts as one client (the IPv4 address or the IPv6 /64), or "" for an invalid address."""
    try:
        found = plain_address(address)
    except ValueError:
        return ""
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, _IPV6_SITE), strict=False))

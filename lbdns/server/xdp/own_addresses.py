"""Finds the addresses and ports for which the kernel may answer on an interface: those at which the server listens."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lbdns.sockets.dns_sockets import WILDCARDS
from lbdns_shared.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class PublishedAddress:
    """An address of an interface at which the server listens."""

    address: str
    port: int
    interface: int  # its number
    mac: bytes  # the interface's Ethernet address


@dataclass(frozen=True, slots=True)
class InterfaceAddresses:
    """The present addresses of one interface."""

    number: int
    mac: bytes  # empty: the interface has no Ethernet address
    addresses: Sequence[str]  # without ``%INTERFACE``


def read_interfaces(names: Iterable[str]) -> list[InterfaceAddresses]:
    """Return the present addresses of the interfaces with these names. Interfaces that do not exist are left out."""
    import psutil  # imported here: only a server with [server] xdp needs it

    found, known = [], psutil.net_if_addrs()
    for name in names:
        try:
            number = socket.if_nametoindex(name)
        except OSError:
            continue
        own = known.get(name, [])
        mac = next((each.address for each in own if each.family == psutil.AF_LINK), "")
        addresses = [each.address.partition("%")[0] for each in own if each.family in (socket.AF_INET, socket.AF_INET6)]
        found.append(InterfaceAddresses(number, bytes.fromhex(mac.replace(":", "")), addresses))
    return found


def published_addresses(
    listen: Iterable[Endpoint], interfaces: Iterable[InterfaceAddresses]
) -> frozenset[PublishedAddress]:
    """Return the addresses of the ``interfaces`` at which a server with this ``listen`` receives queries. Pure."""
    found = set()
    for endpoint in listen:
        host = endpoint.host.partition("%")[0]
        for interface in interfaces:
            for address in interface.addresses if interface.mac else ():
                if _receives(host, address):
                    found.add(PublishedAddress(address, endpoint.port, interface.number, interface.mac))
    return frozenset(found)


def _receives(host: str, address: str) -> bool:
    """Return whether a socket that is bound to ``host`` receives datagrams to ``address``."""
    bound, destination = ipaddress.ip_address(host), ipaddress.ip_address(address)
    return bound.version == destination.version and (host in WILDCARDS or bound == destination)

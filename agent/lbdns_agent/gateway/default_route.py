"""Finds the default gateway in the kernel's routing tables. The parsers are pure functions."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lbdns_agent.kernel_files import read_once

# linux/route.h, linux/ipv6_route.h
RTF_UP: Final = 0x1
RTF_GATEWAY: Final = 0x2
RTF_REJECT: Final = 0x200


@dataclass(frozen=True)
class Gateway:
    """A router's address as text, and the interface that leads to it (an empty name means any interface)."""

    address: str
    interface: str = ""

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    def __str__(self) -> str:
        return f"{self.address}%{self.interface}" if self.interface else self.address


def parse_ipv4(text: bytes) -> Gateway | None:
    """Return the gateway of the IPv4 default route with the lowest metric in /proc/net/route.

    If several routes have the lowest metric, the first route is used. Malformed lines are skipped.
    """
    routes = []
    for line in text.splitlines()[1:]:
        with contextlib.suppress(ValueError, OverflowError):
            interface, destination, gateway, flags, _, _, metric, mask = line.split()[:8]
            # The kernel prints the address, 32 bits in network order, as a number in this machine's byte order
            address = socket.inet_ntoa(int(gateway, 16).to_bytes(4, sys.byteorder))
            if int(destination, 16) == int(mask, 16) == 0 and _usable(int(flags, 16)):
                routes.append((int(metric), Gateway(address, interface.decode("ascii", "replace"))))
    return _best(routes)


def parse_ipv6(text: bytes) -> Gateway | None:
    """Return the gateway of the IPv6 default route with the lowest metric in /proc/net/ipv6_route.

    The file's format is defined in the kernel source net/ipv6/ip6_fib.c (ipv6_route_native_seq_show).
    """
    routes = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError, OverflowError):
            destination, length, _, _, hop, metric, _, _, flags, interface = line.split()[:10]
            if int(destination, 16) == int(length, 16) == 0 and _usable(int(flags, 16)):
                address = socket.inet_ntop(socket.AF_INET6, int(hop, 16).to_bytes(16, "big"))
                routes.append((int(metric, 16), Gateway(address, interface.decode("ascii", "replace"))))
    return _best(routes)


def find_gateway(proc: str = "/proc") -> Gateway | None:
    """Return the IPv4 default gateway or, if there is none, the IPv6 default gateway.

    Returns None if this host has no default gateway.
    """
    for name, parse in (("route", parse_ipv4), ("ipv6_route", parse_ipv6)):
        try:
            gateway = parse(read_once(f"{proc}/net/{name}"))
        except OSError:
            continue  # a kernel without this address family
        if gateway is not None:
            return gateway
    return None


def _best(routes: Iterable[tuple[int, Gateway]]) -> Gateway | None:
    best = min(routes, key=lambda route: route[0], default=None)
    return best[1] if best else None


def _usable(flags: int) -> bool:
    return flags & RTF_UP != 0 and flags & RTF_GATEWAY != 0 and flags & RTF_REJECT == 0

"""Decides in which order a client uses the sites of a pool, by the client subnet in its query or its own address.

Sans-I/O.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from lbdns.model.pool_sites import PoolSites
from lbdns.model.site_networks import Address

MAX_CLIENTS: Final = 16_384  # addresses and client subnets whose orders are remembered, about 350 bytes each
NO_SCOPE: Final = b"\0"
_IPV4, _IPV6 = 1, 2  # address family numbers of IANA
_BYTES: Final = {_IPV4: 4, _IPV6: 16}


class ClientOrders:
    """The orders of the clients of one pool. An order is a number: its index in ``PoolSites.orders``."""

    __slots__ = ("find",)

    def __init__(self, sites: PoolSites) -> None:
        numbers = {order: number for number, order in enumerate(sites.orders)}

        def match(address: Address) -> tuple[int, bytes]:
            found = sites.networks.match(address)
            return numbers[found.order], bytes((found.scope,))

        def find(host: str, subnet: bytes = b"") -> tuple[int, bytes]:
            """Return two values: the order of a client, and the scope of the answer as one byte.

            ``host`` is the client's address. ``subnet`` contains the data of the query's client subnet option, which
            must be well-formed, or nothing if there is no such option.
            """
            return _find(match, host, subnet)

        #: Remembers recent results. The cache must not refer to this object: such a cycle would keep the networks in
        #: memory after each reload, because a table that is replaced is freed without the garbage collector
        self.find = lru_cache(MAX_CLIENTS)(find)


def _find(match: Callable[[Address], tuple[int, bytes]], host: str, subnet: bytes) -> tuple[int, bytes]:
    """Return the result of ``match`` for a client, by its client subnet or, if there is none, its own address.

    A client subnet without an address states that it must not be used (RFC 7871 section 7.1.2): the address of the
    client then decides, and the scope is 0.
    """
    family, source = (subnet[1], subnet[2]) if subnet else (0, 0)
    if source and family in _BYTES:
        packed = subnet[4:].ljust(_BYTES[family], b"\0")
        return match(ipaddress.IPv4Address(packed) if family == _IPV4 else ipaddress.IPv6Address(packed))
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.version == 6 and address.ipv4_mapped:
        address = address.ipv4_mapped
    return match(address)[0], NO_SCOPE

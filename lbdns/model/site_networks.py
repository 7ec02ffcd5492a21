"""The table of networks: maps a client's network to an order of sites, by the longest matching prefix. Pure.

The table is a text with one network a line, followed by the sites in the order in which its clients use them:
``NETWORK SITE [SITE ...]``. ``#`` begins a comment. Clients in no network use the order of their place, if a database
of places knows it, and the default order otherwise.

A lookup also returns the scope: the length of the shortest prefix of the client's address whose addresses all have the
same order. A resolver may cache the answer for this whole prefix (RFC 7871 section 7.2.1). If the table lists a longer
network within the matched one, the scope is longer than the matched network, so that no resolver uses the answer for
clients in the longer network.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
SiteOrder = tuple[str, ...]
UNKNOWN: Final[SiteOrder] = ()  # the order of clients in no network, and of those about whose place nothing is known

_BITS: Final = {4: 32, 6: 128}  # by IP version: the length of an address


@dataclass(frozen=True, slots=True)
class SiteMatch:
    """The order of sites for a client, nearest first, and the scope of this answer in bits."""

    order: SiteOrder
    scope: int


class PlaceLookup(Protocol):
    """Maps addresses to orders of sites by the place of the client."""

    @property
    def orders(self) -> tuple[SiteOrder, ...]:
        """Return the different orders that clients can have, without UNKNOWN."""

    def match(self, address: Address) -> SiteMatch:
        """Return the order for ``address``, which may be UNKNOWN, and a scope in which all clients have this order."""


@dataclass(frozen=True, slots=True)
class _Ranges:
    """All addresses of one IP version, as adjacent ranges; two neighbours never have the same order."""

    starts: Sequence[int]  # ascending; the first is 0
    orders: Sequence[SiteOrder]

    def match(self, address: int, bits: int) -> SiteMatch:
        at = bisect_right(self.starts, address) - 1
        free = bits  # bits that may vary without leaving the range
        if at:
            free = (address ^ (self.starts[at] - 1)).bit_length() - 1
        if at + 1 < len(self.starts):
            free = min(free, (address ^ self.starts[at + 1]).bit_length() - 1)
        return SiteMatch(self.orders[at], bits - free)


@dataclass(frozen=True, slots=True)
class SiteNetworks:
    """The orders of sites by network. A lookup takes time in proportion to the logarithm of the number of networks."""

    default: SiteOrder
    _ranges: Mapping[int, _Ranges] = field(repr=False)  # by IP version; with places, UNKNOWN outside all networks
    places: PlaceLookup | None = None  # decides for clients in no network
    _of_places: Mapping[SiteOrder, SiteOrder] = field(default_factory=dict, repr=False)  # a place's order -> ours

    @property
    def orders(self) -> tuple[SiteOrder, ...]:
        """Return the different orders; the first is that of clients in no known network or place."""
        found = (order for ranges in self._ranges.values() for order in ranges.orders if order)
        return tuple(dict.fromkeys((self.default, *found, *self._of_places.values())))

    def for_sites(self, sites: Collection[str]) -> SiteNetworks:
        """Return the table for a pool that has members in ``sites`` only.

        Each order contains all of the pool's sites. Sites that the table's line omits follow in the default order,
        because a client of a pool whose other sites have failed must still get an answer.
        """

        def complete(order: SiteOrder) -> SiteOrder:
            return tuple(site for site in dict.fromkeys((*order, *self.default)) if site in sites)

        def complete_known(order: SiteOrder) -> SiteOrder:
            return complete(order) if order else UNKNOWN

        ranges = {version: _joined(ranges, complete_known) for version, ranges in self._ranges.items()}
        of_places = {order: complete(found) for order, found in self._of_places.items()}
        return SiteNetworks(complete(self.default), ranges, self.places, of_places)

    def match(self, address: Address) -> SiteMatch:
        """Return the order of sites for a client with this address, or for the first address of the client's network.

        The scope may be longer than the client's network; the order then differs between clients in this network.
        """
        found = self._ranges[address.version].match(int(address), _BITS[address.version])
        if found.order or self.places is None:
            return found
        place = self.places.match(address)
        return SiteMatch(self._of_places[place.order], max(found.scope, place.scope))


def _joined(ranges: _Ranges, change: Callable[[SiteOrder], SiteOrder]) -> _Ranges:
    """Return ``ranges`` with changed orders; neighbours that now have the same order become one range."""
    starts: list[int] = []
    orders: list[SiteOrder] = []
    for start, order in zip(ranges.starts, map(change, ranges.orders), strict=True):
        if not orders or orders[-1] != order:
            starts.append(start)
            orders.append(order)
    return _Ranges(starts, orders)


def build_site_networks(
    networks: Mapping[Network, SiteOrder], default: SiteOrder, places: PlaceLookup | None = None
) -> SiteNetworks:
    """Return a table in which the longest network that contains an address decides its order.

    ``places`` decides for addresses in no network.
    """
    elsewhere = UNKNOWN if places else default
    ranges = {
        version: _flatten(((n, order) for n, order in networks.items() if n.version == version), elsewhere, bits)
        for version, bits in _BITS.items()
    }
    of_places = {UNKNOWN: default, **dict(zip(places.orders, places.orders, strict=True))} if places else {}
    return SiteNetworks(default, ranges, places, of_places)


def parse_site_networks(
    text: str, file: str, sites: Iterable[str], default: SiteOrder, places: PlaceLookup | None = None
) -> SiteNetworks:
    """Return the table that ``text`` contains; ``sites`` are the names of all sites, and ``places`` decides for
    addresses in no network.

    Raises ConfigError, with one finding for each error; ``file`` is the file's name in the findings.
    """
    known = tuple(sites)
    networks: dict[Network, SiteOrder] = {}
    lines: dict[Network, int] = {}
    errors: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            network, order = _read_line(words, known)
            if network in lines:
                raise ValueError(f"{network} is already listed on line {lines[network]}; remove one of the two lines")
        except ValueError as error:
            errors.append(f"{file}:{number}: {error}")
            continue
        networks[network], lines[network] = order, number
    if errors:
        raise ConfigError(*errors)
    return build_site_networks(networks, default, places)


def _read_line(words: Sequence[str], sites: Sequence[str]) -> tuple[Network, SiteOrder]:
    """Return a line's network and its order of sites. Raises ValueError."""
    text, *order = words
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is not a network; write, for example, 192.0.2.0/24 or 2001:db8::/32") from None
    if network != _as_written(text):
        raise ValueError(f"{text} has bits set beyond its prefix; write {network}")
    if not order:
        raise ValueError(f"{text}: no site follows; write the sites in the order in which clients use them")
    for at, site in enumerate(order):
        if site not in sites:
            raise ValueError(f"{text}: there is no site {site!r}{nearest(site, sites)}")
        if site in order[:at]:
            raise ValueError(f"{text}: site {site!r} appears twice")
    return network, tuple(order)


def _as_written(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def _flatten(networks: Iterable[tuple[Network, SiteOrder]], default: SiteOrder, bits: int) -> _Ranges:
    """Return the ranges between the boundaries of the networks; within each, the longest network decides."""
    starts, orders = [0], [default]
    open_networks: list[tuple[int, SiteOrder]] = [(1 << bits, default)]  # the first address after each, and its order

    def begin(at: int, order: SiteOrder) -> None:
        if starts[-1] == at:
            starts.pop()
            orders.pop()
        if not orders or orders[-1] != order:
            starts.append(at)
            orders.append(order)

    def close_before(at: int) -> None:
        while open_networks[-1][0] <= at and len(open_networks) > 1:
            end, _ = open_networks.pop()
            if end < 1 << bits:
                begin(end, open_networks[-1][1])

    # A network precedes the networks within it
    for network, order in sorted(networks, key=lambda item: (int(item[0].network_address), item[0].prefixlen)):
        first = int(network.network_address)
        close_before(first)
        begin(first, order)
        open_networks.append((first + network.num_addresses, order))
    close_before(1 << bits)
    return _Ranges(starts, orders)

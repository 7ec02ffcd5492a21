"""``[forward]``: which clients' recursive queries are forwarded, and to which upstreams. Off without the section."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import Network, parse_network, section
from lbdns_shared.endpoint import DNS_PORT, Endpoint, parse_endpoint

MAX_UPSTREAMS: Final = 8  # no client waits long enough for more to be tried


@dataclass(frozen=True, slots=True)
class ForwardConfig:
    """Forwarding is on if ``upstream`` is not empty; then ``allow`` is not empty either."""

    upstream: tuple[Endpoint, ...] = ()  # literal addresses, in the order in which they are tried
    allow: tuple[Network, ...] = ()


def read_forward(root: TomlTable, listen: Iterable[Endpoint]) -> ForwardConfig:
    """Return the section; errors go to the table. ``listen``: the server's own addresses, which cannot be upstreams."""
    table = section(root, "forward")
    forward = ForwardConfig(
        upstream=tuple(dict.fromkeys(table.each("upstream", (), _parse_upstream))),
        allow=table.each("allow", (), _parse_allowed),
    )
    if len(forward.upstream) > MAX_UPSTREAMS:
        table.wrong("upstream", f"must name at most {MAX_UPSTREAMS} servers, not {len(forward.upstream)}")
    if table.values:
        for key, what in (
            ("upstream", 'must name at least one server, such as "192.0.2.1:53"'),
            ("allow", 'must name the networks whose queries are forwarded, such as "10.0.0.0/8"'),
        ):
            if not table.values.get(key):
                table.wrong(key, what)
    for finding in loops(forward.upstream, listen, is_loopback):
        table.wrong("upstream", finding)
    table.end()
    return forward


def loops(upstreams: Iterable[Endpoint], listen: Iterable[Endpoint], is_ours: Callable[[str], bool]) -> Iterator[str]:
    """Yield an error for each upstream at which this server itself listens.

    ``is_ours`` returns whether an address belongs to this machine, so that a wildcard includes it.
    """
    here = list(listen)
    for upstream in upstreams:
        address = ipaddress.ip_address(upstream.host)
        for endpoint in here:
            other = ipaddress.ip_address(endpoint.host.partition("%")[0])
            if upstream.port != endpoint.port or address.version != other.version:
                continue
            if address == other or (other.is_unspecified and is_ours(str(address))):
                yield f"{upstream} is this server itself, which listens on {endpoint}: queries would loop for ever"
                break


def is_loopback(host: str) -> bool:
    """Return whether an address belongs to every machine."""
    return ipaddress.ip_address(host).is_loopback


def _parse_upstream(text: str) -> Endpoint:
    upstream = parse_endpoint(text, DNS_PORT)
    try:
        address = ipaddress.ip_address(upstream.host)
    except ValueError:
        raise ValueError(f"{text!r}: an upstream must be an address, such as 192.0.2.1:53, not a name") from None
    if address.is_unspecified or address.is_multicast or not upstream.port:
        raise ValueError(f"{text!r} is not the address of a host; write one such as 192.0.2.1:53")
    return upstream


def _parse_allowed(text: str) -> Network:
    network = parse_network(text)
    if not network.prefixlen:
        raise ValueError(f"{text!r} makes an open resolver, which attackers abuse; name your own networks")
    return network

"""``[forward]``: whose recursive queries are relayed, and to whom. Without the section, nobody's."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lbdns.config.reading import Network, parse_network, section
from lbdns.endpoint import DNS_PORT, Endpoint, parse_endpoint
from lbdns.toml_table import Table

MAX_UPSTREAMS: Final = 8  # more are never reached within the time that a client waits


@dataclass(frozen=True, slots=True)
class ForwardConfig:
    """Forwarding is on if there are upstreams; then ``allow`` isn't empty."""

    upstream: tuple[Endpoint, ...] = ()  # literal addresses, in the order in which they are asked
    allow: tuple[Network, ...] = ()


def read_forward(root: Table, listen: Iterable[Endpoint]) -> ForwardConfig:
    """``listen``: where we answer ourselves, which is no upstream."""
    table = section(root, "forward")
    forward = ForwardConfig(
        upstream=tuple(dict.fromkeys(table.each("upstream", (), _parse_upstream))),
        allow=table.each("allow", (), _parse_allowed),
    )
    if len(forward.upstream) > MAX_UPSTREAMS:
        table.wrong("upstream", f"names {len(forward.upstream)} servers; at most {MAX_UPSTREAMS} can be asked in time")
    if table.values:
        for key, what in (
            ("upstream", 'names no server to ask, such as "192.0.2.1:53"'),
            ("allow", 'names no network whose queries are relayed, such as "10.0.0.0/8"'),
        ):
            if not table.values.get(key):
                table.wrong(key, what)
    for finding in loops(forward.upstream, listen, is_loopback):
        table.wrong("upstream", finding)
    table.end()
    return forward


def loops(upstreams: Iterable[Endpoint], listen: Iterable[Endpoint], is_ours: Callable[[str], bool]) -> Iterator[str]:
    """A finding for each upstream that is one of the addresses we listen on: we would ask ourselves.

    ``is_ours`` tells whether an address is this machine's, so that a wildcard stands for it.
    """
    here = list(listen)
    for upstream in upstreams:
        address = ipaddress.ip_address(upstream.host)
        for endpoint in here:
            other = ipaddress.ip_address(endpoint.host.partition("%")[0])
            if upstream.port != endpoint.port or address.version != other.version:
                continue
            if address == other or (other.is_unspecified and is_ours(str(address))):
                yield f"{upstream} is where this server listens itself ({endpoint}): it would ask itself for ever"
                break


def is_loopback(host: str) -> bool:
    """Whether an address is ours on any machine; for others whoever listens has to ask this one."""
    return ipaddress.ip_address(host).is_loopback


def _parse_upstream(text: str) -> Endpoint:
    upstream = parse_endpoint(text, DNS_PORT)
    try:
        address = ipaddress.ip_address(upstream.host)
    except ValueError:
        raise ValueError(f"{text!r}: an upstream is an address, such as 192.0.2.1:53, not a name") from None
    if address.is_unspecified or address.is_multicast or not upstream.port:
        raise ValueError(f"{text!r} is nobody's address; write one such as 192.0.2.1:53")
    return upstream


def _parse_allowed(text: str) -> Network:
    network = parse_network(text)
    if not network.prefixlen:
        raise ValueError(f"{text!r} is everybody: an open resolver, which floods others on request. Name your networks")
    return network

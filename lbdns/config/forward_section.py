"""Read ``[forward]``, which lists the upstream servers, and the clients whose recursive queries are forwarded.

Without this section, forwarding is off.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import Network, distinct, each, parse_host, parse_network, read_section
from lbdns_shared.endpoint import Endpoint

MAX_UPSTREAMS: Final = 8  # no client waits long enough for more to be tried


def _parse_allowed(text: str) -> Network:
    network = parse_network(text)
    if not network.prefixlen:
        raise ValueError(f"{text!r} would create an open resolver, which attackers could abuse; list your own networks")
    return network


@dataclass(frozen=True, slots=True)
class ForwardConfig:
    """The settings for forwarding.

    If ``upstream`` is not empty, forwarding is on, and ``allow`` must list a network.
    """

    upstream: tuple[Endpoint, ...] = distinct(lambda text: parse_host(text, "an upstream"))  # tried in this order
    allow: tuple[Network, ...] = each((), _parse_allowed)


def read_forward(root: TomlTable, listen: Iterable[Endpoint]) -> ForwardConfig:
    """Return the section ``[forward]``, and add any errors in it to the findings of ``root``.

    ``listen`` contains the server's own addresses, which must not be upstreams.
    """

    def check(forward: ForwardConfig, table: TomlTable) -> None:
        if len(forward.upstream) > MAX_UPSTREAMS:
            table.wrong("upstream", f"must list at most {MAX_UPSTREAMS} servers, not {len(forward.upstream)}")
        if table.values and not table.values.get("upstream"):
            table.wrong("upstream", 'must list at least one server, such as "192.0.2.1:53"')
        if table.values and not table.values.get("allow"):
            table.wrong("allow", 'must list the networks whose queries are forwarded, such as "10.0.0.0/8"')
        for finding in loops(forward.upstream, listen, is_loopback):
            table.wrong("upstream", finding)

    return read_section(root, "forward", ForwardConfig, check)


def loops(upstreams: Iterable[Endpoint], listen: Iterable[Endpoint], is_ours: Callable[[str], bool]) -> Iterator[str]:
    """Yield an error message for each upstream that is one of this server's own listening addresses.

    ``is_ours`` returns whether an address belongs to this machine. A wildcard in ``listen`` covers all addresses of
    this machine.
    """
    here = list(listen)
    for upstream in upstreams:
        address = ipaddress.ip_address(upstream.host)
        for endpoint in here:
            other = ipaddress.ip_address(endpoint.host.partition("%")[0])
            if upstream.port != endpoint.port or address.version != other.version:
                continue
            if address == other or (other.is_unspecified and is_ours(str(address))):
                yield f"{upstream} is this server itself, which listens on {endpoint}, so queries would loop forever"
                break


def is_loopback(host: str) -> bool:
    """Return whether an address is a loopback address, which always belongs to this machine."""
    return ipaddress.ip_address(host).is_loopback

"""``[[zone]]``: the zones that are served, the master files they are read from, and their secondaries."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lbdns.config.keys import KeyConfig, known_key
from lbdns.config.reading import Network, domain_name, parse_network
from lbdns.endpoint import DNS_PORT, Endpoint, parse_endpoint
from lbdns.toml_table import Place, Table


@dataclass(frozen=True, slots=True)
class Permit:
    """Who may transfer a zone: clients of a network, whoever signs with a key, or, with both, who does both."""

    network: Network | None
    key: str = ""  # the name of a [[key]]


@dataclass(frozen=True, slots=True)
class Target:
    """A secondary that is told when a zone has changed, signed with a key if one is given."""

    endpoint: Endpoint
    key: str = ""

    def __str__(self) -> str:
        return str(self.endpoint)


@dataclass(frozen=True, slots=True)
class ZoneConfig:
    name: str  # lower case, without the final dot; the root is ""
    file: Path
    transfer: tuple[Permit, ...] = ()  # any of them is enough; without, nobody may
    notify: tuple[Target, ...] = ()


def read_zones(root: Table, base: Path, keys: Iterable[KeyConfig] = ()) -> tuple[ZoneConfig, ...]:
    zones: list[ZoneConfig] = []
    known = tuple(keys)
    for table in root.tables("zone"):
        name = domain_name(table, "name", table.required("name"))
        if name in (zone.name for zone in zones):
            table.wrong("name", f"{name!r} is there already: a zone is served from one file")
        zones.append(
            ZoneConfig(
                name=name,
                file=base / table.required("file"),
                transfer=table.each("transfer", (), lambda text: _parse_permit(text, known)),
                notify=tuple(dict.fromkeys(table.each("notify", (), lambda text: _parse_target(text, known)))),
            )
        )
        table.end()
    if not zones and not root.findings.found:
        root.findings.add(Place(), "there is no [[zone]]; a zone needs a name and a file")
    return tuple(zones)


def _parse_permit(text: str, keys: Iterable[KeyConfig]) -> Permit:
    """``NETWORK``, ``key NAME`` or ``NETWORK key NAME``. Raises ValueError."""
    match text.split():
        case ["key", name]:
            return Permit(None, _key_of(text, name, keys))
        case [network]:
            return Permit(parse_network(network))
        case [network, "key", name]:
            return Permit(parse_network(network), _key_of(text, name, keys))
        case _:
            raise ValueError(f"{text!r} is not like '10.0.0.2', '10.0.0.0/8', 'key NAME' or '10.0.0.0/8 key NAME'")


def _parse_target(text: str, keys: Iterable[KeyConfig]) -> Target:
    """``ADDRESS[:PORT]`` or ``ADDRESS[:PORT] key NAME``. Raises ValueError."""
    match text.split():
        case [address]:
            return Target(_parse_address(address))
        case [address, "key", name]:
            return Target(_parse_address(address), _key_of(text, name, keys))
        case _:
            raise ValueError(f"{text!r} is not like '10.0.0.2', '[2001:db8::1]:53' or '10.0.0.2 key NAME'")


def _parse_address(text: str) -> Endpoint:
    endpoint = parse_endpoint(text, DNS_PORT)
    if not endpoint.is_address:
        raise ValueError(f"{text!r}: a secondary is told at an address, such as 192.0.2.1:53, not a name")
    address = ipaddress.ip_address(endpoint.host)
    if address.is_unspecified or address.is_multicast or not endpoint.port:
        raise ValueError(f"{text!r} is nobody's address; write one such as 192.0.2.1:53")
    return endpoint


def _key_of(text: str, name: str, keys: Iterable[KeyConfig]) -> str:
    try:
        return known_key(name, keys)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None

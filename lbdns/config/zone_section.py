"""``[[zone]]``: the zones to serve, their master files and their secondaries."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lbdns.config.key_section import KeyConfig, known_key
from lbdns.config.toml_reader import TomlPlace, TomlTable
from lbdns.config.value_readers import Network, domain_name, parse_network
from lbdns_shared.endpoint import DNS_PORT, Endpoint, parse_endpoint


@dataclass(frozen=True, slots=True)
class TransferPermit:
    """Permission to transfer a zone, for clients in ``network``, or that sign with ``key``, or both if both are set."""

    network: Network | None
    key: str = ""  # the name of a [[key]]


@dataclass(frozen=True, slots=True)
class NotifyTarget:
    """A secondary that gets a NOTIFY when a zone changes, signed with ``key`` if one is set."""

    endpoint: Endpoint
    key: str = ""

    def __str__(self) -> str:
        return str(self.endpoint)


@dataclass(frozen=True, slots=True)
class ZoneConfig:
    name: str  # lower case, without the final dot; the root is ""
    file: Path
    transfer: tuple[TransferPermit, ...] = ()  # any one of them is enough; empty: no client may transfer
    notify: tuple[NotifyTarget, ...] = ()


def read_zones(root: TomlTable, base: Path, keys: Iterable[KeyConfig] = ()) -> tuple[ZoneConfig, ...]:
    zones: list[ZoneConfig] = []
    known = tuple(keys)
    for table in root.tables("zone"):
        name = domain_name(table, "name", table.required("name"))
        if name in (zone.name for zone in zones):
            table.wrong("name", f"two zones have the name {name!r}; a zone has one file")
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
        root.findings.add(TomlPlace(), "must contain a [[zone]] with a name and a file")
    return tuple(zones)


def _parse_permit(text: str, keys: Iterable[KeyConfig]) -> TransferPermit:
    """Read ``NETWORK``, ``key NAME`` or ``NETWORK key NAME``. Raises ValueError."""
    match text.split():
        case ["key", name]:
            return TransferPermit(None, _key_of(text, name, keys))
        case [network]:
            return TransferPermit(parse_network(network))
        case [network, "key", name]:
            return TransferPermit(parse_network(network), _key_of(text, name, keys))
        case _:
            raise ValueError(f"{text!r} must be like '10.0.0.2', '10.0.0.0/8', 'key NAME' or '10.0.0.0/8 key NAME'")


def _parse_target(text: str, keys: Iterable[KeyConfig]) -> NotifyTarget:
    """Read ``ADDRESS[:PORT]`` or ``ADDRESS[:PORT] key NAME``. Raises ValueError."""
    match text.split():
        case [address]:
            return NotifyTarget(_parse_address(address))
        case [address, "key", name]:
            return NotifyTarget(_parse_address(address), _key_of(text, name, keys))
        case _:
            raise ValueError(f"{text!r} must be like '10.0.0.2', '[2001:db8::1]:53' or '10.0.0.2 key NAME'")


def _parse_address(text: str) -> Endpoint:
    endpoint = parse_endpoint(text, DNS_PORT)
    if not endpoint.is_address:
        raise ValueError(f"{text!r}: a secondary must be an address, such as 192.0.2.1:53, not a name")
    address = ipaddress.ip_address(endpoint.host)
    if address.is_unspecified or address.is_multicast or not endpoint.port:
        raise ValueError(f"{text!r} is not the address of a host; write one such as 192.0.2.1:53")
    return endpoint


def _key_of(text: str, name: str, keys: Iterable[KeyConfig]) -> str:
    try:
        return known_key(name, keys)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None

"""Read ``[[zone]]``, which lists the zones to serve, their master files and their secondaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lbdns.config.key_section import KeyConfig
from lbdns.config.toml_reader import TomlPlace, TomlTable
from lbdns.config.value_readers import Network, domain_name, parse_host, parse_network
from lbdns.text.suggestions import nearest
from lbdns_shared.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class TransferPermit:
    """A permission for zone transfers to clients in ``network`` that sign requests with ``key``.

    Only fields that are set are checked.
    """

    network: Network | None
    key: str = ""  # the name of a [[key]]


@dataclass(frozen=True, slots=True)
class NotifyTarget:
    """A secondary that receives a NOTIFY when a zone changes. If ``key`` is set, it signs the NOTIFY."""

    endpoint: Endpoint
    key: str = ""

    def __str__(self) -> str:
        return str(self.endpoint)


@dataclass(frozen=True, slots=True)
class ZoneConfig:
    name: str  # lower case, without the final dot; the root is ""
    file: Path
    transfer: tuple[TransferPermit, ...] = ()  # any one permit is enough; empty: no client may transfer
    notify: tuple[NotifyTarget, ...] = ()


def read_zones(root: TomlTable, keys: Sequence[KeyConfig]) -> tuple[ZoneConfig, ...]:
    zones: list[ZoneConfig] = []
    for table in root.tables("zone"):
        name = domain_name(table, "name", table.required("name"))
        if name in (zone.name for zone in zones):
            table.wrong("name", f"two zones have the name {name!r}; a zone can have only one file")
        zones.append(
            ZoneConfig(
                name=name,
                file=table.folder / table.required("file"),
                transfer=table.each("transfer", (), lambda text: _parse_permit(text, keys)),
                notify=tuple(dict.fromkeys(table.each("notify", (), lambda text: _parse_target(text, keys)))),
            )
        )
        table.end()
    if not zones and not root.findings.found:
        root.findings.add(TomlPlace(), "must contain at least one [[zone]] with a name and a file")
    return tuple(zones)


def _parse_permit(text: str, keys: Sequence[KeyConfig]) -> TransferPermit:
    """Parse ``NETWORK``, ``key NAME`` or ``NETWORK key NAME``. Raises ValueError."""
    match text.split():
        case ["key", name]:
            return TransferPermit(None, _key_of(text, name, keys))
        case [network]:
            return TransferPermit(parse_network(network))
        case [network, "key", name]:
            return TransferPermit(parse_network(network), _key_of(text, name, keys))
        case _:
            raise ValueError(
                f"{text!r} must be a network, a key or both, such as "
                "'10.0.0.2', '10.0.0.0/8', 'key NAME' or '10.0.0.0/8 key NAME'"
            )


def _parse_target(text: str, keys: Sequence[KeyConfig]) -> NotifyTarget:
    """Parse ``ADDRESS[:PORT]`` or ``ADDRESS[:PORT] key NAME``. Raises ValueError."""
    match text.split():
        case [address]:
            return NotifyTarget(parse_host(address, "a secondary"))
        case [address, "key", name]:
            return NotifyTarget(parse_host(address, "a secondary"), _key_of(text, name, keys))
        case _:
            raise ValueError(
                f"{text!r} must be an address, with a port and a key if needed: "
                "'10.0.0.2', '[2001:db8::1]:53' or '10.0.0.2 key NAME'"
            )


def _key_of(text: str, name: str, keys: Sequence[KeyConfig]) -> str:
    """Return the name of a configured key, in lower case without its final dot. Raises ValueError."""
    key, known = name.lower().removesuffix("."), [key.name for key in keys]
    if key not in known:
        near = nearest(key, known) or "; the configuration has no [[key]]"
        raise ValueError(f"{text!r}: unknown [[key]] {name!r}{near}")
    return key

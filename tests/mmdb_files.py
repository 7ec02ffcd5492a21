"""Writes small databases in the format MaxMind DB 2.0, for tests."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from typing import Any, Final

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

BUILT: Final = 1_700_000_000  # 14 November 2023
_MARKER: Final = b"\xab\xcd\xefMaxMind.com"
_POINTER_SEPARATOR: Final = bytes(16)
#: Type numbers
_TEXT, _DOUBLE, _UINT16, _UINT32, _MAP, _UINT64, _ARRAY = 2, 3, 5, 6, 7, 9, 11


def place(
    continent: str = "", country: str = "", subdivision: str = "", at: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Return a record in the form of GeoLite2-City, with only the fields whose values are given."""
    found: dict[str, Any] = {}
    if continent:
        found["continent"] = {"code": continent, "names": {"en": continent}}
    if country:
        found["country"] = {"iso_code": country, "names": {"en": country}}
    if subdivision:
        found["subdivisions"] = [{"iso_code": code} for code in subdivision.split()]
    if at:
        found["location"] = {"latitude": at[0], "longitude": at[1], "accuracy_radius": 10}
    return found


def database(records: Mapping[str, Any], kind: str = "Test-City", ip_version: int = 6) -> bytes:
    """Return a database with a record for each network. Networks must not overlap.

    IPv4 networks lie in ::/96 if ``ip_version`` is 6.
    """
    data = b""
    tree: list[list[Any]] = [[None, None]]  # each item: None, the index of a node, or the offset of data in a tuple
    for text, record in records.items():
        _insert(tree, _bits(ipaddress.ip_network(text), ip_version), (len(data),))
        data += _encode(record)
    nodes = len(tree)

    def number(item: Any) -> int:
        if item is None:
            return nodes
        return nodes + len(_POINTER_SEPARATOR) + int(item[0]) if isinstance(item, tuple) else int(item)

    written = b"".join(number(item).to_bytes(4, "big") for node in tree for item in node)
    metadata = {
        "binary_format_major_version": (_UINT16, 2),
        "binary_format_minor_version": (_UINT16, 0),
        "build_epoch": (_UINT64, BUILT),
        "database_type": kind,
        "description": {"en": "a database of the tests"},
        "ip_version": (_UINT16, ip_version),
        "languages": ["en"],
        "node_count": nodes,
        "record_size": (_UINT16, 32),
    }
    return written + _POINTER_SEPARATOR + data + _MARKER + _encode(metadata)


def _bits(network: Network, ip_version: int) -> str:
    length = 32 if network.version == 4 else 128
    bits = f"{int(network.network_address):0{length}b}"[: network.prefixlen]
    return "0" * 96 + bits if network.version == 4 and ip_version == 6 else bits


def _insert(tree: list[list[Any]], bits: str, leaf: tuple[int]) -> None:
    node = 0
    for bit in bits[:-1]:
        below = tree[node][int(bit)]
        if below is None:
            tree.append([None, None])
            below = tree[node][int(bit)] = len(tree) - 1
        assert isinstance(below, int), "networks must not overlap"
        node = below
    assert tree[node][int(bits[-1])] is None, "networks must not overlap"
    tree[node][int(bits[-1])] = leaf


def _encode(value: Any) -> bytes:
    if isinstance(value, str):
        return _control(_TEXT, len(value.encode())) + value.encode()
    if isinstance(value, float):
        return _control(_DOUBLE, 8) + struct.pack(">d", value)
    if isinstance(value, int):
        value = (_UINT32, value)
    if isinstance(value, tuple):
        kind, number = value
        digits: bytes = number.to_bytes((number.bit_length() + 7) // 8, "big")
        return _control(kind, len(digits)) + digits
    if isinstance(value, Mapping):
        return _control(_MAP, len(value)) + b"".join(_encode(key) + _encode(value[key]) for key in value)
    return _control(_ARRAY, len(value)) + b"".join(map(_encode, value))


def _control(kind: int, size: int) -> bytes:
    """Return the control bytes of a value. Types above 7 have a byte of their own; sizes from 29 on, another one."""
    extended = kind > 7
    first = (0 if extended else kind) << 5 | min(size, 29)
    assert size < 29 + 256
    return bytes([first, *([kind - 7] if extended else []), *([size - 29] if size >= 29 else [])])

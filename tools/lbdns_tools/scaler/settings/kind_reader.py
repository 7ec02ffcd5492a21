"""Reads a section whose key ``kind`` decides which other keys it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import read_fields


def read_kind(table: TomlTable, kinds: Mapping[str, Callable[..., Any]], default: str) -> tuple[str, Any]:
    """Return the kind, and its settings as an instance of the dataclass ``kinds[kind]``.

    A key that belongs to other kinds is an error, and the error message names these kinds. Any other unknown key is an
    error, too.
    """
    kind = table.one_of("kind", default, tuple(kinds))
    found = read_fields(kinds[kind], table)
    own = _keys(kinds[kind])
    for name in table.values:
        others = [other for other, settings in kinds.items() if name in _keys(settings)]
        if name not in own and others:
            table.raw(name)
            belongs = " or ".join(f'"{other}"' for other in others)
            table.wrong(name, f'belongs to kind {belongs}, but the kind is "{kind}"; remove the key or change the kind')
    table.end()
    return kind, found


def _keys(settings: Callable[..., Any]) -> frozenset[str]:
    return frozenset(field.name for field in fields(settings))  # type: ignore[arg-type]

"""Writes TOML, which Python's standard library can read but not write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")


def to_toml(values: Mapping[str, Any]) -> str:
    """Return ``values`` as TOML: plain keys first, then the tables and arrays of tables, each under its header."""
    plain = [f"{_key(k)} = {toml_value(v)}\n" for k, v in values.items() if not isinstance(v, dict) and not _tables(v)]
    tables = []
    for key, value in values.items():
        if isinstance(value, dict):
            tables.append(f"\n[{_key(key)}]\n{_lines(value)}")
        elif _tables(value):
            tables += [f"\n[[{_key(key)}]]\n{_lines(table)}" for table in value]
    return "".join([*plain, *tables])


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {toml_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return key if _BARE.match(key) else _string(key)


def _string(text: str) -> str:
    # As in JSON, except for DEL, which TOML requires to be escaped
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any) -> str:
    """Return a value as TOML; a dict is written as an inline table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {toml_value(v)}" for k, v in value.items()) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return repr(value) if isinstance(value, int | float) else value.isoformat()

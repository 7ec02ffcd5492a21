"""Implements the part of JSON Schema (2020-12) that the project uses, and also reports keys that a schema lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
KEYWORDS: Final = {
    "$schema", "$defs", "$ref", "title", "description", "type", "properties", "required", "items",
    "additionalProperties", "enum", "minimum", "maximum",
}  # fmt: skip


def misfits(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], at: str = "$") -> Iterator[str]:
    """Yield each mismatch between ``value`` and the schema. Unsupported keywords raise AssertionError."""
    assert schema.keys() <= KEYWORDS, schema.keys() - KEYWORDS
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    types = schema.get("type", list(_TYPES))
    if not any(_TYPES[name](value) for name in ([types] if isinstance(types, str) else types)):
        yield f"{at}: {value!r} is no {types}"
    elif isinstance(value, dict):
        yield from _in_object(value, schema, root, at)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from misfits(inner, schema["items"], root, f"{at}[{i}]")
    elif _TYPES["number"](value) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{at}: {value!r} is too small or too large"


def _in_object(value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], at: str) -> Iterator[str]:
    yield from (f"{at}: {key} is missing" for key in schema.get("required", ()) if key not in value)
    for key, inner in value.items():
        known = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
        if known:
            yield from misfits(inner, known, root, f"{at}.{key}")
        else:
            yield f"{at}: {key} is not in the schema"

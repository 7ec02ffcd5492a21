"""Finds the value of a metric in a JSON document. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from reprlib import repr as brief_repr
from typing import Any

from lbdns_agent.sources.plain_number import parse_number


@dataclass(frozen=True)
class JsonField:
    """Selects a number by its path: the keys of objects and the positions in lists (from 0). Without a path, the
    document itself must be a number."""

    path: tuple[str, ...] = ()

    def find(self, text: bytes) -> float:
        """Return the number. Raises ValueError if the document is not JSON, or has no number at the path."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not a JSON document: {error}") from None
        for depth, step in enumerate(self.path):
            try:
                value = _member(value, step)
            except LookupError:
                parent = ".".join(self.path[:depth])
                where = f"{parent!r}" if parent else "the document"
                raise ValueError(f"{where} has no field {step!r}{_choice(value)}") from None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            what = f"the field {'.'.join(self.path)!r}" if self.path else "the document"
            raise ValueError(f"{what} must be a number, not {brief_repr(value)}")
        return parse_number(repr(value))


def parse_json_field(text: str) -> JsonField:
    """Return the selector for a path such as ``queue.length`` or ``workers.0.busy``. Raises ValueError."""
    path = tuple(text.split("."))
    if not all(path):
        raise ValueError(f"{text!r} must be a path such as queue.length, with a name before and after each dot")
    return JsonField(path)


def _member(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value[step]
    if isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 10:
        return value[int(step)]
    raise LookupError(step)


def _choice(value: Any) -> str:
    if isinstance(value, dict):
        return f"; the fields are: {', '.join(map(str, list(value)[:10]))}" if value else ""
    return f"; the list has {len(value)} elements" if isinstance(value, list) else ""

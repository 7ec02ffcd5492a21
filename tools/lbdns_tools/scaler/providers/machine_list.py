"""Parses the list of servers that a user's command prints: a JSON array, or one JSON object per line. Pure."""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from lbdns.config.value_readers import HOST_NAME
from lbdns.text.suggestions import nearest
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus, ProviderError

STATUSES: Final = {status.value: status for status in MachineStatus}
LATEST: Final = 1e11  # Unix seconds, in the year 5138; a greater number is most likely in milliseconds


def parse_machines(output: bytes) -> tuple[Machine, ...]:
    """Return the servers. Raises ProviderError with the first mistake and its position."""
    try:
        text = output.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProviderError(f"list: the output must be UTF-8 text: byte {error.start} is not valid") from None
    if text.lstrip().startswith("["):
        found = [_machine(value, f"server {number}") for number, value in enumerate(_array(text), 1)]
    else:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        found = [_machine(_load(line, f"line {number}"), f"line {number}") for number, line in lines]
    names = [machine.name for machine in found]
    for name in names:
        if names.count(name) > 1:
            raise ProviderError(f"list: server {name!r} appears {names.count(name)} times")
    return tuple(found)


def _array(text: str) -> list[Any]:
    values: list[Any] = _load(text, "the output")
    return values


def _load(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProviderError(f"list: {where} is not valid JSON: {error}") from None


def _machine(value: Any, where: str) -> Machine:
    """Return one server. Raises ProviderError."""
    if not isinstance(value, dict):
        raise ProviderError(f'list: {where}: must be a JSON object such as {{"name": "web-1"}}, not {value!r:.60}')
    for key in value:
        if key not in _READERS:
            raise ProviderError(f"list: {where}: unknown key {key!r:.60}{nearest(key, _READERS)}")
    for key in ("name", "status"):
        if key not in value:
            raise ProviderError(f"list: {where}: {key} is missing")
    try:
        return Machine(**{key: _READERS[key](item) for key, item in value.items()})
    except ValueError as error:
        raise ProviderError(f"list: {where}: {error}") from None


def _name(value: Any) -> str:
    if not (isinstance(value, str) and HOST_NAME.match(value)):
        raise ValueError(f"name: {value!r:.60} must be a lower-case host name relative to the zone, such as 'web-1'")
    return value


def _status(value: Any) -> MachineStatus:
    if not (isinstance(value, str) and value in STATUSES):
        raise ValueError(f"status: unknown value {value!r:.60}; known: {', '.join(STATUSES)}")
    return STATUSES[value]


def _addresses(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"addresses: must be a list of addresses, not {value!r:.60}")
    found = []
    for item in value:
        try:
            if not isinstance(item, str):
                raise ValueError
            found.append(str(ipaddress.ip_address(item)))
        except ValueError:
            raise ValueError(f"addresses: {item!r:.60} is not an IPv4 or IPv6 address") from None
    return tuple(found)


def _created(value: Any) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and 0 <= value <= LATEST):
        raise ValueError(f"created: must be Unix time in seconds, or 0, not {value!r:.60}")
    return float(value)


def _detail(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"detail: must be a string, not {value!r:.60}")
    return value


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "name": _name, "status": _status, "addresses": _addresses, "created": _created, "detail": _detail,
}  # fmt: skip

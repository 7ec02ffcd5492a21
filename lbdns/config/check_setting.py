"""The key ``check`` of a ``[[pool]]``, which defines how the collector checks whether a member still works."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable

CheckKind = Literal["tcp", "http", "icmp"]
OFF: Final = "off"
HTTP_PORT: Final = 80
MAX_PORT: Final = 65535
STATUS_CODES: Final = (100, 599)  # RFC 9110 section 15
DEFAULT_STATUS: Final = ((200, 399),)
_FORMS: Final = "write, for example, 'tcp:80', 'http://:80/path', 'icmp' or 'off'"
_TCP: Final = re.compile(r"tcp:([0-9]{1,5})\Z")
# The host, if there is one, is sent in the Host field; the path is sent as it is, so it has no blank and no fragment
_HTTP: Final = re.compile(r"http://([A-Za-z0-9._-]*)(?::([0-9]{1,5}))?(/[!-\"$-~]*)?\Z")
_STATUS: Final = re.compile(r"([0-9]{3})(?:-([0-9]{3}))?\Z")

StatusRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """The target of a check on a member: the protocol, and its TCP port or HTTP URL.

    ``host`` and ``path`` are parts of an HTTP request. ``str`` returns the configured text.
    """

    text: str
    kind: CheckKind
    port: int = 0
    host: str = ""  # of the Host field; empty: the member's full name
    path: str = "/"

    def __str__(self) -> str:
        return self.text


def parse_target(text: str) -> CheckTarget | None:
    """Return the target written as ``text``, or None for ``off``. Raises ValueError."""
    if text == OFF:
        return None
    if text == "icmp":
        return CheckTarget(text, "icmp")
    if match := _TCP.match(text):
        return CheckTarget(text, "tcp", _port(text, match[1]))
    if match := _HTTP.match(text):
        return CheckTarget(text, "http", _port(text, match[2] or str(HTTP_PORT)), match[1], match[3] or "/")
    if text.startswith("https:"):
        raise ValueError(f"{text!r}: HTTPS cannot be checked; write, for example, 'tcp:443'")
    raise ValueError(f"{text!r} is not a valid check; {_FORMS}")


def _port(text: str, digits: str) -> int:
    port = int(digits)
    if not 0 < port <= MAX_PORT:
        raise ValueError(f"{text!r}: the port must be from 1 to {MAX_PORT}")
    return port


def _target(table: TomlTable, key: str, _: object) -> CheckTarget | None:
    text = table.required(key)
    try:
        return parse_target(text) if text else None
    except ValueError as error:
        table.wrong(key, str(error))
        return None


def _status(table: TomlTable, key: str, default: tuple[StatusRange, ...]) -> tuple[StatusRange, ...]:
    value = table.raw(key)
    if value is None:
        return default
    found = []
    for item in value if isinstance(value, list) else [value]:
        match = _STATUS.match(str(item))
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not STATUS_CODES[0] <= low <= high <= STATUS_CODES[1]:
            table.wrong(key, f"{item!r} is not a status code; write, for example, 200, '200-299' or [200, 204]")
            return default
        found.append((low, high))
    if not found:
        table.wrong(key, "is empty, so no response can pass the check; list at least one status code")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class CheckConfig:
    """A pool's check. ``up`` and ``down`` are numbers of consecutive results.

    ``down`` applies only to members without an agent.
    """

    target: CheckTarget | None = read.key(_target)  # None: off
    status: tuple[StatusRange, ...] = read.key(_status, DEFAULT_STATUS)  # of HTTP: the codes that pass, inclusive
    interval: float = read.number(1.0, 0.1, 3600.0)  # s between two checks of a member
    timeout: float = read.number(0.3, 0.01, 60.0)  # s
    up: int = read.integer(2, 1, 100)  # checks that a member must pass to return
    down: int = read.integer(2, 1, 100)  # checks that a member without an agent must fail to be silent


NO_CHECK: Final = CheckConfig(None)


def read_check(table: TomlTable, key: str, default: CheckConfig) -> CheckConfig:
    """Return a pool's check, and add errors to the table's findings.

    The check is configured as a string (the target) or as a table.
    """
    if not isinstance(table.values.get(key), dict):
        return table.parsed(key, OFF, lambda text: CheckConfig(parse_target(text)), default)
    inner = table.table(key)
    assert inner is not None
    found = read.read_fields(CheckConfig, inner)
    if found.target is not None and found.target.kind != "http" and "status" in inner.values:
        inner.wrong("status", f"applies only to HTTP checks, not to {found.target}")
    inner.end()
    return found

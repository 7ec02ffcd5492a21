"""Override requests: reads and checks the fields of the control commands that override members. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from lbdns.model.overrides import GREATEST_FACTOR, LEAST_FACTOR, MAX_REASON, OverrideKind
from lbdns.text.suggestions import nearest
from lbdns.text.times import LONGEST
from lbdns_shared.errors import LbdnsError

MAX_NAME: Final = 255  # characters of a member's or a pool's name
_COMMON: Final = ("command", "member", "pool", "reason")
_PUTTING: Final = ("for_s", "force")
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "drain": (*_COMMON, *_PUTTING, "ahead"),
    "undrain": _COMMON,
    "force": (*_COMMON, *_PUTTING, "to"),
    "weight": (*_COMMON, *_PUTTING, "factor"),
}
COMMANDS: Final = tuple(_FIELDS)
_FORCE_VALUES: Final = ("up", "down", "auto")


@dataclass(frozen=True, slots=True)
class OverrideRequest:
    """A request to override a member. If ``kind`` is None, the request ends the member's overrides in ``slot``."""

    slot: str
    kind: OverrideKind | None
    member: str
    pool: str = ""  # empty: every pool that has the member
    factor: float = 1.0
    reason: str = ""
    for_s: float = math.inf  # seconds from now
    force: bool = False  # proceed even if a pool is left without a usable member
    ahead: bool = False  # the member may also be a host that has not joined yet

    @property
    def has_end(self) -> bool:
        return self.for_s < math.inf


def read_override_request(fields: Mapping[str, Any]) -> OverrideRequest:
    """Return the override request described by the fields of a control command (one of COMMANDS). Raises LbdnsError."""
    command = fields["command"]
    for field in fields:
        if field not in _FIELDS[command]:
            name = field[:MAX_NAME]
            raise LbdnsError(f"{command}: there is no field {name!r}{nearest(name, _FIELDS[command])}")
    kind, factor = _kind(command, fields)
    request = OverrideRequest(
        "drain" if command == "undrain" else command,
        kind,
        _text(fields, "member", MAX_NAME),
        _text(fields, "pool", MAX_NAME),
        factor,
        _text(fields, "reason", MAX_REASON),
        _seconds(fields),
        _flag(fields, "force"),
        _flag(fields, "ahead"),
    )
    if not request.member:
        raise LbdnsError(f"{command}: 'member' is missing")
    if kind is None and request.has_end:
        raise LbdnsError(f"{command}: 'for_s' must be omitted, because this command ends an override")
    return request


def _kind(command: str, fields: Mapping[str, Any]) -> tuple[OverrideKind | None, float]:
    """Return the kind of override and the weight factor. The kind is None if the command ends overrides."""
    if command == "drain":
        return "drain", 1.0
    if command == "force":
        to = fields.get("to")
        if to not in _FORCE_VALUES:
            raise LbdnsError(f"force: 'to' must be one of {', '.join(_FORCE_VALUES)}, not {str(to)[:MAX_NAME]!r}")
        return ("up" if to == "up" else "down" if to == "down" else None), 1.0
    if command == "weight":
        factor = fields.get("factor")
        if not _is_number(factor) or not LEAST_FACTOR <= factor <= GREATEST_FACTOR:
            least, greatest = f"{LEAST_FACTOR:g}", f"{GREATEST_FACTOR:g}"
            raise LbdnsError(
                f"weight: 'factor' must be a number from {least} to {greatest}, not {str(factor)[:MAX_NAME]!r}"
            )
        return (None if factor == 1 else "weight"), float(factor)
    return None, 1.0


def _text(fields: Mapping[str, Any], key: str, longest: int) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise LbdnsError(f"{fields['command']}: '{key}' must be a string")
    value = value.strip()
    if len(value) > longest or not value.isprintable():
        raise LbdnsError(f"{fields['command']}: '{key}' must consist of at most {longest} printable characters")
    return value


def _seconds(fields: Mapping[str, Any]) -> float:
    value = fields.get("for_s")
    if value is None:
        return math.inf
    if not _is_number(value) or not 0 < value <= LONGEST:
        what = f"must be a number of seconds greater than 0 and at most {LONGEST:.0f}"
        raise LbdnsError(f"{fields['command']}: 'for_s' {what}")
    return float(value)


def _flag(fields: Mapping[str, Any], key: str) -> bool:
    value = fields.get(key, False)
    if type(value) is not bool:
        raise LbdnsError(f"{fields['command']}: '{key}' must be true or false")
    return value


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) is int or (type(value) is float and math.isfinite(value))  # isfinite raises for a huge int

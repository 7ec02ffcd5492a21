"""What an order about a member says, read word by word. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from lbdns.duration import LONGEST
from lbdns.errors import LbdnsError
from lbdns.overrides import GREATEST_FACTOR, LEAST_FACTOR, MAX_REASON, SLOTS, OverrideKind
from lbdns.toml_table import nearest

MAX_NAME: Final = 255  # characters of a member's or a pool's name
_COMMON: Final = ("command", "member", "pool", "reason")
_PUTTING: Final = ("for_s", "force")
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "drain": (*_COMMON, *_PUTTING),
    "undrain": _COMMON,
    "force": (*_COMMON, *_PUTTING, "to"),
    "weight": (*_COMMON, *_PUTTING, "factor"),
}
COMMANDS: Final = tuple(_WORDS)
_WAYS: Final = ("up", "down", "auto")


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants for a member. ``kind`` is None to end what there is in the ``slot``."""

    slot: str
    kind: OverrideKind | None
    member: str
    pool: str = ""  # empty: every pool that has the member
    factor: float = 1.0
    reason: str = ""
    for_s: float = math.inf  # seconds from now on
    force: bool = False  # also if it takes a pool's last usable member


def read_wish(words: Mapping[str, Any]) -> Wish:
    """The wish of an order whose ``command`` is one of COMMANDS. Raises LbdnsError."""
    command = words["command"]
    for word in words:
        if word not in _WORDS[command]:
            raise LbdnsError(f"{command}: there is no {word[:MAX_NAME]!r}{nearest(word[:MAX_NAME], _WORDS[command])}")
    kind, factor = _kind(command, words)
    wish = Wish(
        SLOTS[kind] if kind else command,
        kind,
        _text(words, "member", MAX_NAME),
        _text(words, "pool", MAX_NAME),
        factor,
        _text(words, "reason", MAX_REASON),
        _seconds(words),
        _flag(words, "force"),
    )
    if not wish.member:
        raise LbdnsError(f"{command}: member: is missing")
    if kind is None and wish.for_s < math.inf:
        raise LbdnsError(f"{command}: for_s: this ends an order; there is nothing that could last")
    return wish if command != "undrain" else Wish("drain", None, wish.member, wish.pool, reason=wish.reason)


def _kind(command: str, words: Mapping[str, Any]) -> tuple[OverrideKind | None, float]:
    """What it comes to, None if to nothing any more, and the factor."""
    if command == "drain":
        return "drain", 1.0
    if command == "force":
        to = words.get("to")
        if to not in _WAYS:
            raise LbdnsError(f"force: to: {str(to)[:MAX_NAME]!r} is none of {', '.join(_WAYS)}")
        return ("up" if to == "up" else "down" if to == "down" else None), 1.0
    if command == "weight":
        factor = words.get("factor")
        if not _is_number(factor) or not LEAST_FACTOR <= factor <= GREATEST_FACTOR:
            least, greatest = f"{LEAST_FACTOR:g}", f"{GREATEST_FACTOR:g}"
            raise LbdnsError(f"weight: factor: {str(factor)[:MAX_NAME]!r} is no number from {least} to {greatest}")
        return (None if factor == 1 else "weight"), float(factor)
    return None, 1.0


def _text(words: Mapping[str, Any], key: str, longest: int) -> str:
    value = words.get(key, "")
    if not isinstance(value, str):
        raise LbdnsError(f"{words['command']}: {key}: is no text")
    value = value.strip()
    if len(value) > longest or not value.isprintable():
        raise LbdnsError(f"{words['command']}: {key}: at most {longest} characters, all of them printable")
    return value


def _seconds(words: Mapping[str, Any]) -> float:
    value = words.get("for_s")
    if value is None:
        return math.inf
    if not _is_number(value) or not 0 < value <= LONGEST:
        raise LbdnsError(f"{words['command']}: for_s: seconds, more than 0 and at most {LONGEST:.0f}")
    return float(value)


def _flag(words: Mapping[str, Any], key: str) -> bool:
    value = words.get(key, False)
    if type(value) is not bool:
        raise LbdnsError(f"{words['command']}: {key}: is true or false")
    return value


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value)

"""Domain names in lower-case wire form (RFC 1035 section 3.1). All tables use this form for their keys. Pure."""

from __future__ import annotations

from typing import Final

MAX_NAME: Final = 255  # octets, RFC 1035 section 2.3.4
MAX_LABEL: Final = 63
ROOT: Final = b"\0"


def from_text(text: str) -> bytes:
    """Return the lower-case wire form of a plain host name without escapes. A final dot is ignored.

    Raises ValueError if the name is too long.
    """
    labels = [label.encode("ascii") for label in text.lower().removesuffix(".").split(".") if label]
    wire = b"".join(bytes((len(label),)) + label for label in labels) + ROOT
    if len(wire) > MAX_NAME or any(len(label) > MAX_LABEL for label in labels):
        raise ValueError(f"{text!r} is too long for a domain name")
    return wire


def to_text(wire: bytes) -> str:
    """Return a wire name in the notation of master files, but without the final dot. The root is "."."""
    labels = []
    at = 0
    while wire[at]:
        labels.append("".join(map(_escape, wire[at + 1 : at + 1 + wire[at]])))
        at += 1 + wire[at]
    return ".".join(labels) or "."


def _escape(octet: int) -> str:
    char = chr(octet)
    if char in '."\\();@$':
        return f"\\{char}"
    return char if 0x20 < octet < 0x7F else f"\\{octet:03d}"


def parent(wire: bytes) -> bytes:
    """Return the name without its first label. Callers must not pass the root, which has no parent."""
    return wire[wire[0] + 1 :]


def suffixes(wire: bytes) -> list[bytes]:
    """Return a list of the name and all its ancestors up to the root."""
    found = [wire]
    while wire[0]:
        wire = wire[wire[0] + 1 :]
        found.append(wire)
    return found


def is_below(wire: bytes, ancestor: bytes) -> bool:
    """Return whether ``wire`` is ``ancestor`` or a name below ``ancestor``."""
    if not wire.endswith(ancestor):
        return False
    at = 0
    while len(wire) - at > len(ancestor):
        at += 1 + wire[at]
    return len(wire) - at == len(ancestor)

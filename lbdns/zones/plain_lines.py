"""Reads the plain lines of a master file with one pattern: owner, optional TTL, type, and address or name. Pure.

In a large zone, most lines match this pattern. The full parser takes ten times as long to read them. The pattern
matches only lines for which the full parser returns the same record. The full parser reads all other lines, including
invalid lines.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import dns.name
import dns.rdatatype

from lbdns.zones.names import MAX_LABEL, MAX_NAME

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)*\.?"
_LINE: Final = re.compile(
    rf"({_NAME}|@)[ \t]+(?:([0-9]{{1,9}})[ \t]+)?(?:[Ii][Nn][ \t]+)?"  # owner, TTL, class
    r"(A|AAAA|CNAME|NS|PTR)[ \t]+([A-Za-z0-9_.:-]+)[ \t]*\n"
)
_TARGET: Final = re.compile(_NAME)
_ADDRESSES: Final = (dns.rdatatype.A, dns.rdatatype.AAAA)
_TYPES: Final = {name: dns.rdatatype.from_text(name) for name in ("A", "AAAA", "CNAME", "NS", "PTR")}


@dataclass(frozen=True, slots=True)
class PlainLine:
    """A record, and the offset in the text at which its line ends."""

    owner: bytes  # wire form, in the letter case of the file
    ttl: int | None  # s; None if the line has none
    rtype: dns.rdatatype.RdataType
    rdata: bytes  # wire form, in the letter case of the file
    text: str  # the owner as text
    data: str  # the data as text, the last word of the line
    end: int

    @property
    def alike(self) -> bytes:
        """Return the data in canonical form (with names in lower case), so that equal records have equal data."""
        return self.rdata if self.rtype in _ADDRESSES else self.rdata.lower()


def plain_lines(text: str, at: int, origin: dns.name.Name) -> Iterator[PlainLine]:
    """Yield the plain lines in ``text`` from offset ``at``, and stop at the first line that is not plain.

    ``origin`` completes relative names.
    """
    below = b"".join(bytes((len(label),)) + label for label in origin.labels)
    while match := _LINE.match(text, at):
        owner_text, ttl, type_text, data = match.groups()
        owner = below if owner_text == "@" else _wire(owner_text, below)
        rtype = _TYPES[type_text]
        rdata = _rdata(rtype, data, below)
        if owner is None or rdata is None:
            return
        at = match.end()
        yield PlainLine(owner, int(ttl) if ttl else None, rtype, rdata, owner_text, data, at)


def _wire(text: str, below: bytes) -> bytes | None:
    absolute = text.endswith(".")
    labels = (text[:-1] if absolute else text).encode("ascii").split(b".")
    wire = b"".join([bytes((len(label),)) + label for label in labels if len(label) <= MAX_LABEL])
    wire += b"\0" if absolute else below
    return wire if len(wire) <= MAX_NAME and max(map(len, labels)) <= MAX_LABEL else None


def _rdata(rtype: dns.rdatatype.RdataType, text: str, below: bytes) -> bytes | None:
    if rtype not in _ADDRESSES:
        return _wire(text, below) if _TARGET.fullmatch(text) else None
    try:
        return (ipaddress.IPv4Address if rtype == dns.rdatatype.A else ipaddress.IPv6Address)(text).packed
    except ValueError:
        return None

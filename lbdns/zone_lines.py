"""Plain lines of a master file, read by one pattern: an owner, perhaps a TTL, a type, and an address or a name. Pure.

A large zone consists of them, and a general reader takes ten times as long. What is plain is defined narrowly, and
means here just what it means to the general reader, which reads everything else and says what is wrong.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import dns.name
import dns.rdatatype

from lbdns.names import MAX_LABEL, MAX_NAME

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
    """One record. ``end`` is where the line ends in the text."""

    owner: bytes  # wire form, in the letter case of the file
    ttl: int | None  # s; None if the line has none
    rtype: dns.rdatatype.RdataType
    rdata: bytes  # wire form, in the letter case of the file
    text: str  # of the owner
    data: str  # its data as text, the last word of the line
    end: int

    @property
    def alike(self) -> bytes:
        """The data in the form in which records that are alike have the same: names in lower case."""
        return self.rdata if self.rtype in _ADDRESSES else self.rdata.lower()


def plain_lines(text: str, at: int, origin: dns.name.Name) -> Iterator[PlainLine]:
    """The plain lines that stand one behind another in ``text`` from ``at``, the beginning of a line, on; relative
    names are below ``origin``."""
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
    """The wire form of a plain name, None if it is too long for one."""
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

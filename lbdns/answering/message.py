"""Writing records into a message: owner names and the names in well-known rdata compressed. Pure.

Names are compressed against the question, which always begins at offset 12, so what is written for one question
fits every query that asks it, whatever the letter case of its name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from lbdns.answering.constants import AA, CLASS_IN, HEADER_LENGTH, Rcode, Type

_OFFSET_BITS: Final = 14  # of a pointer, RFC 1035 section 4.1.4
_MAX_POINTER: Final = (1 << _OFFSET_BITS) - 1
#: What takes more pointers to read than this is not pointed to: readers give up, for fear of loops, after 16 or so.
_DEEPEST: Final = 8 << _OFFSET_BITS
_RR_FIXED: Final = struct.Struct("!HHIH")
_POINTER: Final = struct.Struct("!H")


class Record(NamedTuple):
    """One resource record; owner in lower-case wire form, rdata uncompressed, TTL in seconds."""

    owner: bytes
    rtype: int
    ttl: int
    rdata: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What is to be said to a question, before it is written."""

    rcode: Rcode = Rcode.NOERROR
    authoritative: bool = True
    answer: tuple[Record, ...] = ()
    authority: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """An answer written for one question: everything of the message but id, query flags, question and OPT."""

    flags: int  # AA and RCODE
    counts: tuple[int, int, int]
    records: bytes


def write(answer: Answer, qname: bytes) -> Body:
    """Write the sections of ``answer`` for a question about ``qname`` (lower-case wire form)."""
    writer = Writer(qname)
    for section in (answer.answer, answer.authority, answer.additional):
        writer.add(section)
    return Body(
        flags=(AA if answer.authoritative else 0) | answer.rcode,
        counts=(len(answer.answer), len(answer.authority), len(answer.additional)),
        records=b"".join(writer.parts),
    )


class Writer:
    """Writes records behind a question. ``exact_case``: names that differ in case don't share their bytes."""

    def __init__(self, qname: bytes, exact_case: bool = False) -> None:
        self.parts: list[bytes] = []
        self._fold = bytes if exact_case else bytes.lower
        self._at = HEADER_LENGTH
        # By name: where it stands, and above those 14 bits how many pointers it takes to read it there
        self._places: dict[bytes, int] = {}
        self._learn(self._fold(qname), len(qname) - 1, 0)
        self._at += len(qname) + 4

    @property
    def size(self) -> int:
        """Bytes of the message so far."""
        return self._at

    def add(self, records: Iterable[Record]) -> None:
        for owner, rtype, ttl, rdata in records:
            self._name(owner)
            names = _RDATA_NAMES.get(rtype)
            if names is None:
                self._put(_RR_FIXED.pack(rtype, CLASS_IN, ttl, len(rdata)) + rdata)
                continue
            before = len(self.parts)
            self._put(b"")  # the fixed part goes here when the length is known
            self._at += _RR_FIXED.size
            start = self._at
            names(self, rdata)
            self.parts[before] = _RR_FIXED.pack(rtype, CLASS_IN, ttl, self._at - start)

    def _put(self, data: bytes) -> None:
        self.parts.append(data)
        self._at += len(data)

    def _name(self, name: bytes) -> None:
        """A name, from the first of its suffixes on that stands somewhere already by a pointer to there."""
        folded = self._fold(name)
        find, at = self._places.get, 0
        while length := name[at]:
            place = find(folded[at:])
            if place is not None and place < _DEEPEST:
                self._learn(folded, at, (place >> _OFFSET_BITS) + 1)
                self._put(name[:at] + _POINTER.pack(0xC000 | place & _MAX_POINTER))
                return
            at += 1 + length
        self._learn(folded, at, 0)
        self._put(name)

    def _learn(self, folded: bytes, end: int, pointers: int) -> None:
        """Later names may point to this one, written at the current place, or into it before ``end``; to read it takes
        so many ``pointers``."""
        at, here = 0, self._at
        while at < end and here + at <= _MAX_POINTER:
            self._places.setdefault(folded[at:], pointers << _OFFSET_BITS | here + at)
            at += 1 + folded[at]

    def one_name(self, rdata: bytes) -> None:
        self._name(rdata)

    def preference_and_name(self, rdata: bytes) -> None:
        self._put(rdata[:2])
        self._name(rdata[2:])

    def soa(self, rdata: bytes) -> None:
        mname_end = _name_end(rdata, 0)
        rname_end = _name_end(rdata, mname_end)
        self._name(rdata[:mname_end])
        self._name(rdata[mname_end:rname_end])
        self._put(rdata[rname_end:])


def _name_end(data: bytes, at: int) -> int:
    while data[at]:
        at += 1 + data[at]
    return at + 1


#: The types of RFC 1035 in whose rdata names may be compressed (RFC 3597 section 4: in no others).
_RDATA_NAMES: Final[dict[int, Callable[[Writer, bytes], None]]] = {
    Type.NS: Writer.one_name,
    Type.CNAME: Writer.one_name,
    Type.PTR: Writer.one_name,
    Type.MX: Writer.preference_and_name,
    Type.SOA: Writer.soa,
}

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

_MAX_POINTER: Final = 0x3FFF
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
        self._offsets: dict[bytes, int] = {}
        self._learn(qname)
        self._at += len(qname) + 4

    @property
    def size(self) -> int:
        """Bytes of the message so far."""
        return self._at

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            self._name(record.owner)
            names = _RDATA_NAMES.get(record.rtype)
            before = len(self.parts)
            self._put(b"")  # the fixed part goes here when the length is known
            self._at += _RR_FIXED.size
            start = self._at
            if names is None:
                self._put(record.rdata)
            else:
                names(self, record.rdata)
            self.parts[before] = _RR_FIXED.pack(record.rtype, CLASS_IN, record.ttl, self._at - start)

    def _put(self, data: bytes) -> None:
        self.parts.append(data)
        self._at += len(data)

    def _learn(self, name: bytes) -> None:
        """Later names may point to this one, written at the current place, or into it."""
        at = 0
        folded = self._fold(name)
        while name[at] and self._at + at <= _MAX_POINTER:
            self._offsets.setdefault(folded[at:], self._at + at)
            at += 1 + name[at]

    def _name(self, name: bytes) -> None:
        at = 0
        folded = self._fold(name)
        while name[at]:
            offset = self._offsets.get(folded[at:])
            if offset is not None:
                self._learn_labels(name, at)
                self._put(name[:at] + _POINTER.pack(0xC000 | offset))
                return
            at += 1 + name[at]
        self._learn(name)
        self._put(name)

    def _learn_labels(self, name: bytes, end: int) -> None:
        at = 0
        folded = self._fold(name)
        while at < end and self._at + at <= _MAX_POINTER:
            self._offsets.setdefault(folded[at:], self._at + at)
            at += 1 + name[at]

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

"""A strict reader of queries: bounded work whatever arrives, no exception, nothing guessed. Pure.

Rules: shorter than a header, or a response: nothing is answered. Another opcode: NOTIMP. Not exactly one question,
records where a query has none, a name that is no name, anything behind the last record: FORMERR. At most one OPT.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from lbdns.answering.constants import HEADER_LENGTH, OPCODE_MASK, QR, Rcode, Type
from lbdns.answering.edns import Edns, read_options
from lbdns.names import MAX_LABEL, MAX_NAME

_HEADER: Final = struct.Struct("!HHHHHH")
_RR_FIXED: Final = struct.Struct("!HHIH")
MAX_ADDITIONAL: Final = 8  # records: a query has an OPT and perhaps a TSIG; more is somebody trying


@dataclass(frozen=True, slots=True)
class Query:
    """A query as read. ``error`` other than NOERROR says what to answer it with.

    ``question`` are the bytes as received, to be echoed; empty if there is no sound question.
    """

    id: bytes
    flags: int
    question: bytes = b""
    qname: bytes = b""  # lower-case wire form
    qtype: int = 0
    qclass: int = 0
    edns: Edns | None = None
    error: Rcode = Rcode.NOERROR


def read_query(message: bytes) -> Query | None:
    """Read one message; None if it deserves no answer at all."""
    if len(message) < HEADER_LENGTH:
        return None
    _, flags, questions, answers, authorities, additionals = _HEADER.unpack_from(message)
    ident = message[:2]
    if flags & QR:
        return None
    if flags & OPCODE_MASK:
        return Query(ident, flags, error=Rcode.NOTIMP)
    if questions != 1 or answers or authorities or additionals > MAX_ADDITIONAL:
        return Query(ident, flags, error=Rcode.FORMERR)
    name_end = _question_name_end(message)
    end = name_end + 4
    if not name_end or end > len(message):
        return Query(ident, flags, error=Rcode.FORMERR)
    edns, sound = _read_additional(message, end, additionals)
    qtype, qclass = struct.unpack_from("!HH", message, name_end)
    error = Rcode.NOERROR if sound else Rcode.FORMERR
    if sound and edns and edns.version != 0:
        error = Rcode.BADVERS
    return Query(
        id=ident,
        flags=flags,
        question=message[HEADER_LENGTH:end],
        qname=message[HEADER_LENGTH:name_end].lower(),
        qtype=qtype,
        qclass=qclass,
        edns=edns,
        error=error,
    )


def _question_name_end(message: bytes) -> int:
    """Where the question's name ends, or 0 if it is cut, too long, or holds a pointer or an unknown label type."""
    at = HEADER_LENGTH
    while at < len(message):
        length = message[at]
        if length > MAX_LABEL:
            return 0
        at += 1 + length
        if at - HEADER_LENGTH > MAX_NAME:
            return 0
        if not length:
            return at
    return 0


def _read_additional(message: bytes, at: int, count: int) -> tuple[Edns | None, bool]:
    """The OPT record behind the question, and whether all there is is sound."""
    edns = None
    for _ in range(count):
        owner = at
        at = _skip_name(message, at)
        if not at or at + _RR_FIXED.size > len(message):
            return edns, False
        rtype, rclass, ttl, length = _RR_FIXED.unpack_from(message, at)
        at += _RR_FIXED.size
        rdata = message[at : at + length]
        at += length
        if len(rdata) < length:
            return edns, False
        if rtype == Type.OPT:
            options = read_options(rdata)
            if edns or message[owner] or options is None:
                return edns, False
            edns = Edns(rclass, (ttl >> 16) & 0xFF, bool(ttl & 0x8000), options)
    return edns, at == len(message)


def _skip_name(message: bytes, at: int) -> int:
    """Where a name that may end in a pointer ends, or 0 if it is cut or no name. Pointers aren't followed."""
    start = at
    while at < len(message):
        length = message[at]
        if length >= 0xC0:
            return at + 2
        if length > MAX_LABEL or at - start > MAX_NAME:
            return 0
        at += 1 + length
        if not length:
            return at
    return 0

"""A strict reader of queries: bounded work whatever arrives, no exception, nothing guessed. Pure.

Rules: shorter than a header, or a response: nothing is answered. Another opcode: NOTIMP. Not exactly one question,
records where a query has none, a name that is no name, anything behind the last record: FORMERR. At most one OPT,
and one TSIG, which is the last. IXFR alone may have a record of authority, the client's SOA (RFC 1995 section 3).
No question at all is sound if there is a cookie: that asks for a cookie alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from lbdns.answering.constants import HEADER_LENGTH, OPCODE_MASK, QR, Rcode, Type
from lbdns.answering.edns import Edns, read_options
from lbdns.answering.options import Code
from lbdns.answering.tsig import Signed
from lbdns.names import MAX_LABEL, MAX_NAME

_HEADER: Final = struct.Struct("!HHHHHH")
_RR_FIXED: Final = struct.Struct("!HHIH")
_SOA_NUMBERS: Final = struct.Struct("!IIIII")  # serial, refresh, retry, expire, minimum
NO_SERIAL: Final = -1
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
    tsig_at: int = 0  # where the TSIG record begins, 0 if there is none
    serial: int = NO_SERIAL  # of the client's SOA, if it asks for IXFR
    signed: Signed | None = None  # how the response is to be signed, once the TSIG has been checked


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
    if questions > 1 or answers or authorities > questions or additionals > MAX_ADDITIONAL:
        return Query(ident, flags, error=Rcode.FORMERR)
    if not questions:
        return _without_question(message, flags, additionals)
    name_end = _question_name_end(message)
    end = name_end + 4
    if not name_end or end > len(message):
        return Query(ident, flags, error=Rcode.FORMERR)
    qtype, qclass = struct.unpack_from("!HH", message, name_end)
    if authorities > (qtype == Type.IXFR):
        return Query(ident, flags, error=Rcode.FORMERR)
    serial, at = _read_soa(message, end) if authorities else (NO_SERIAL, end)
    edns, tsig_at, sound = _read_additional(message, at, additionals) if at else (None, 0, False)
    return Query(
        id=ident,
        flags=flags,
        question=message[HEADER_LENGTH:end],
        qname=message[HEADER_LENGTH:name_end].lower(),
        qtype=qtype,
        qclass=qclass,
        edns=edns,
        error=_error(edns, sound),
        tsig_at=tsig_at,
        serial=serial,
    )


def _without_question(message: bytes, flags: int, additionals: int) -> Query:
    """A query for a cookie alone (RFC 7873 section 5.4); anything else without a question is none."""
    edns, _, sound = _read_additional(message, HEADER_LENGTH, additionals)
    asks_cookie = edns is not None and any(code == Code.COOKIE for code, _ in edns.options)
    return Query(message[:2], flags, edns=edns, error=_error(edns, sound and asks_cookie))


def _error(edns: Edns | None, sound: bool) -> Rcode:
    if not sound:
        return Rcode.FORMERR
    return Rcode.BADVERS if edns and edns.version != 0 else Rcode.NOERROR


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


def _read_soa(message: bytes, at: int) -> tuple[int, int]:
    """The serial of the SOA record at ``at``, and where it ends: 0 if it is cut or none. Its names don't matter."""
    at = skip_name(message, at)
    if not at or at + _RR_FIXED.size > len(message):
        return NO_SERIAL, 0
    rtype, _, _, length = _RR_FIXED.unpack_from(message, at)
    end = at + _RR_FIXED.size + length
    if rtype != Type.SOA or length < _SOA_NUMBERS.size or end > len(message):
        return NO_SERIAL, 0
    return _SOA_NUMBERS.unpack_from(message, end - _SOA_NUMBERS.size)[0], end


def _read_additional(message: bytes, at: int, count: int) -> tuple[Edns | None, int, bool]:
    """The OPT record behind the question, where the TSIG begins if there is one, and whether all there is is sound."""
    edns, tsig_at = None, 0
    for _ in range(count):
        owner = at
        at = skip_name(message, at)
        if tsig_at or not at or at + _RR_FIXED.size > len(message):
            return edns, 0, False  # also of anything behind a TSIG (RFC 8945 section 5.1)
        rtype, rclass, ttl, length = _RR_FIXED.unpack_from(message, at)
        at += _RR_FIXED.size
        rdata = message[at : at + length]
        at += length
        if len(rdata) < length:
            return edns, 0, False
        if rtype == Type.OPT:
            options = read_options(rdata)
            if edns or message[owner] or options is None:
                return edns, 0, False
            edns = Edns(rclass, (ttl >> 16) & 0xFF, bool(ttl & 0x8000), options)
        elif rtype == Type.TSIG:
            tsig_at = owner
    return edns, tsig_at, at == len(message)


def skip_name(message: bytes, at: int) -> int:
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

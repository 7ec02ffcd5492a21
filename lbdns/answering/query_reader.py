"""Parses queries, and checks their syntax strictly.

Whatever the input, the reader raises no exceptions and does a bounded amount of work. Pure.

- A response, or a message shorter than a header, is not answered.
- A query with an opcode other than QUERY is answered with NOTIMP.
- More than one question, an unexpected record, a malformed name or bytes after the last record cause FORMERR.
- A query may have one OPT record and one TSIG record; the TSIG record must come last.
- Only an IXFR query may have an authority record, namely the client's SOA (RFC 1995 section 3).
- A query without a question must have a COOKIE option; such a query requests only a server cookie (RFC 7873 section
  5.4).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from lbdns.answering.dns_constants import HEADER_LENGTH, OPCODE_MASK, QR, Rcode, Type
from lbdns.answering.edns import Edns, OptionCode, read_options
from lbdns.answering.tsig import QuerySignature
from lbdns.zones.names import MAX_LABEL, MAX_NAME

_HEADER: Final = struct.Struct("!HHHHHH")
_RR_FIXED: Final = struct.Struct("!HHIH")
_SOA_NUMBERS: Final = struct.Struct("!IIIII")  # serial, refresh, retry, expire, minimum
NO_SERIAL: Final = -1
MAX_ADDITIONAL: Final = 8  # records: a query has an OPT and perhaps a TSIG record; many more are an attack


@dataclass(frozen=True, slots=True)
class Query:
    """A query as received.

    ``error`` is the response's RCODE if the reader rejects the query; otherwise, it is NOERROR. ``question`` contains
    the question's bytes as received, because the response must repeat them. ``question`` is empty if there is no
    well-formed question.
    """

    id: bytes
    flags: int
    question: bytes = b""
    qname: bytes = b""  # lower-case wire form
    qtype: int = 0
    qclass: int = 0
    edns: Edns | None = None
    error: Rcode = Rcode.NOERROR
    tsig_at: int = 0  # offset of the TSIG record, 0 if there is none
    serial: int = NO_SERIAL  # of the client's SOA in an IXFR query
    signature: QuerySignature | None = None  # how to sign the response; set once the TSIG record is checked


def read_query(message: bytes) -> Query | None:
    """Return the query that ``message`` contains, or None if the message must not be answered."""
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
    name_end = skip_name(message, HEADER_LENGTH, pointers=False)
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
    edns, _, sound = _read_additional(message, HEADER_LENGTH, additionals)
    asks_cookie = edns is not None and any(code == OptionCode.COOKIE for code, _ in edns.options)
    return Query(message[:2], flags, edns=edns, error=_error(edns, sound and asks_cookie))


def _error(edns: Edns | None, sound: bool) -> Rcode:
    if not sound:
        return Rcode.FORMERR
    return Rcode.BADVERS if edns and edns.version != 0 else Rcode.NOERROR


def _read_soa(message: bytes, at: int) -> tuple[int, int]:
    """Return two values: the serial of the SOA record at offset ``at``, and the record's end offset (0 if
    malformed)."""
    at = skip_name(message, at)
    if not at or at + _RR_FIXED.size > len(message):
        return NO_SERIAL, 0
    rtype, _, _, length = _RR_FIXED.unpack_from(message, at)
    end = at + _RR_FIXED.size + length
    if rtype != Type.SOA or length < _SOA_NUMBERS.size or end > len(message):
        return NO_SERIAL, 0
    return _SOA_NUMBERS.unpack_from(message, end - _SOA_NUMBERS.size)[0], end


def _read_additional(message: bytes, at: int, count: int) -> tuple[Edns | None, int, bool]:
    """Return three values: the OPT record, the TSIG record's offset (0 if none), and whether the section is
    well-formed."""
    edns, tsig_at = None, 0
    for _ in range(count):
        owner = at
        at = skip_name(message, at)
        if tsig_at or not at or at + _RR_FIXED.size > len(message):
            return edns, 0, False  # also if anything follows a TSIG record (RFC 8945 section 5.1)
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


def skip_name(message: bytes, at: int, pointers: bool = True) -> int:
    """Return the end offset of the name that starts at offset ``at``, or 0 if the name is malformed.

    If ``pointers`` is true, the name may end with a pointer.
    """
    start = at
    while at < len(message):
        length = message[at]
        if length >= 0xC0 and pointers:
            return at + 2
        at += 1 + length
        if length > MAX_LABEL or at - start > MAX_NAME:
            return 0
        if not length:
            return at
    return 0

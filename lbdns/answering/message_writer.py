"""Writes DNS response messages (header, records with compressed names, OPT record) within size limits.

Names are compressed against the question, whose name always begins at offset 12. A body written for one question can
therefore be reused for every query with that question, in any letter case.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from lbdns.answering.cookies import CLIENT, SERVER
from lbdns.answering.dns_constants import (
    AA,
    CLASS_IN,
    HEADER_LENGTH,
    MAX_TCP_MESSAGE,
    OPCODE_MASK,
    QR,
    RD,
    TC,
    TCP,
    Rcode,
    Type,
)  # fmt: skip
from lbdns.answering.edns import LEAST_PAYLOAD, OUR_PAYLOAD, Edns, EdnsOptions, OptionCode, write_opt, write_option
from lbdns.answering.query_reader import Query, skip_name

_OFFSET_BITS: Final = 14  # of a compression pointer, RFC 1035 section 4.1.4
_MAX_POINTER: Final = (1 << _OFFSET_BITS) - 1
#: No pointer leads to a name that takes 8 pointers to read: readers stop after about 16, to guard against loops.
_DEEPEST: Final = 8 << _OFFSET_BITS
_RR_FIXED: Final = struct.Struct("!HHIH")
_POINTER: Final = struct.Struct("!H")
_EMPTY_COOKIE: Final = write_option(OptionCode.COOKIE, bytes(CLIENT + SERVER))

#: Head (flags and counts) and tail (records and OPT) of a response. A whole response is id, head, question and tail.
Variant = tuple[bytes, bytes]


class Record(NamedTuple):
    """One resource record, with its owner in lower-case wire form, its rdata uncompressed, and its TTL in seconds."""

    owner: bytes
    rtype: int
    ttl: int
    rdata: bytes


@dataclass(frozen=True, slots=True)
class AnswerSections:
    """The RCODE and records of a response that has not been written yet.

    ``dnssec`` contains the records that follow ``authority`` if the query has DO set. ``optional`` contains RRsets that
    follow ``additional`` if they fit, and ``alternatives`` contains groups of records that follow ``answer`` if they
    fit. A response without its optional RRsets or its last alternatives does not count as truncated. Sections with
    alternatives contain only answer records.
    """

    rcode: Rcode = Rcode.NOERROR
    authoritative: bool = True
    answer: tuple[Record, ...] = ()
    authority: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()
    dnssec: tuple[Record, ...] = ()
    optional: tuple[tuple[Record, ...], ...] = ()
    alternatives: tuple[tuple[Record, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class ResponseBody:
    """A response to one question, without the parts that depend on the query (id, copied flags and OPT record).

    For each optional RRset and each group of alternatives, ``cuts`` contains two values: the counts of the response
    that ends before it, and how many bytes of ``records`` precede it.
    """

    flags: int  # AA and RCODE
    counts: tuple[int, int, int]
    records: bytes
    cuts: tuple[tuple[tuple[int, int, int], int], ...] = ()
    with_dnssec: ResponseBody | None = None  # the body for queries with DO, if it differs

    def for_query(self, edns: Edns | None) -> ResponseBody:
        """Return the body for a query whose OPT record is ``edns``."""
        return self.with_dnssec if self.with_dnssec and edns and edns.dnssec_ok else self

    def shortened(self, length: int) -> ResponseBody:
        """Return the body; omit the last optional RRsets and alternatives if it would exceed ``length`` bytes.

        If the body does not fit even without all of these, the result is longer than ``length``.
        """
        if len(self.records) <= length or not self.cuts:
            return self
        counts, end = max((cut for cut in self.cuts if cut[1] <= length), default=self.cuts[0])
        return ResponseBody(self.flags, counts, self.records[:end])


def write_body(sections: AnswerSections, qname: bytes) -> ResponseBody:
    """Write the body with ``sections`` for a question about ``qname`` (a name in lower-case wire form)."""
    body = _write_body(sections, qname)
    if not sections.dnssec:
        return body
    authority = sections.authority + sections.dnssec
    return replace(body, with_dnssec=_write_body(replace(sections, authority=authority), qname))


def _write_body(sections: AnswerSections, qname: bytes) -> ResponseBody:
    writer = RecordWriter(qname)
    for section in (sections.answer, sections.authority, sections.additional):
        writer.add(section)
    cuts, begin = [], HEADER_LENGTH + len(qname) + 4
    answers, authorities, additionals = len(sections.answer), len(sections.authority), len(sections.additional)
    for group in sections.alternatives:
        cuts.append(((answers, authorities, additionals), writer.size - begin))
        writer.add(group)
        answers += len(group)
    for rrset in sections.optional:
        if writer.size > MAX_TCP_MESSAGE:
            break
        cuts.append(((answers, authorities, additionals), writer.size - begin))
        writer.add(rrset)
        additionals += len(rrset)
    return ResponseBody(
        flags=(AA if sections.authoritative else 0) | sections.rcode,
        counts=(answers, authorities, additionals),
        records=b"".join(writer.parts),
        cuts=tuple(cuts),
    )


def without_records(rcode: Rcode) -> ResponseBody:
    """Return a response body without records."""
    return ResponseBody(rcode & 0xF, (0, 0, 0), b"")


#: The body of a response that is truncated before its records are written.
EMPTY_BODY: Final = without_records(Rcode.NOERROR)


def truncated(body: ResponseBody) -> ResponseBody:
    """Return ``body`` with TC set, so that the client repeats the query over TCP.

    All records are dropped, so that no RRset is incomplete (RFC 2181 section 9).
    """
    return ResponseBody(body.flags | TC, (0, 0, 0), b"")


def write_variant(
    body: ResponseBody,
    query_flags: int,
    edns: Edns | None,
    rcode: int | None = None,
    payload: int = OUR_PAYLOAD,
    options: bytes = b"",
) -> Variant:
    """Return the head and tail of a response that contains ``body``, given the flags and OPT record of the query.

    ``rcode`` overrides the body's RCODE. ``payload`` is the maximum length in bytes of a query that the server accepts
    over UDP. ``options`` is the rdata of the response's OPT record. The opcode is copied from the query; if the opcode
    is QUERY, RD is also copied (RFC 1035 section 4.1.1). The AD, CD and Z bits are clear (RFC 4035 section 3.1.6).
    """
    body = body.for_query(edns)
    full = body.flags & 0xF if rcode is None else rcode
    copied = query_flags & OPCODE_MASK or query_flags & RD
    flags = QR | copied | (body.flags & ~0xF) | (full & 0xF)
    answers, authorities, additionals = body.counts
    opt = write_opt(edns, full, payload, options) if edns else b""
    counts = (1, answers, authorities, additionals + bool(opt))
    head = b"".join(number.to_bytes(2, "big") for number in (flags, *counts))
    return head, body.records + opt


def precompiled_variant(
    body: ResponseBody, query_flags: int, edns: Edns | None, has_cookie: bool, payload: int
) -> Variant:
    """Return the result of ``write_variant`` without the cookie, which the fast path appends to the tail."""
    head, tail = write_variant(body, query_flags, edns, None, payload, _EMPTY_COOKIE if has_cookie else b"")
    return head, tail[: -CLIENT - SERVER] if has_cookie else tail


@dataclass(frozen=True, slots=True)
class ResponseWriter:
    """Writes complete responses within one configuration's size limits. The caller counts and sends the responses."""

    payload: int = OUR_PAYLOAD  # bytes that we accept and send over UDP
    udp_without_cookie: int = MAX_TCP_MESSAGE  # maximum bytes over UDP for clients without a valid cookie

    def write(
        self, query: Query, body: ResponseBody, options: EdnsOptions, wall: float, rcode: Rcode | None = None
    ) -> bytes:
        """Return the response to ``query``, signed if the query is signed. ``wall`` is in Unix seconds.

        ``rcode`` overrides the body's RCODE, because a body has no room for the upper bits of an extended RCODE.
        """
        head, tail = write_variant(body, query.flags, query.edns, rcode, self.payload, options.written)
        if not query.question:
            head = head[:2] + b"\0\0" + head[4:]  # there is no well-formed question to echo or count
        response = b"".join((query.id, head, query.question, tail))
        return query.signature.sign(response, wall) if query.signature else response

    def write_within(
        self, limit: int, query: Query, body: ResponseBody, options: EdnsOptions, wall: float
    ) -> bytes | None:
        """Return the response; omit the last optional RRsets and alternatives if it would exceed ``limit`` bytes.

        Return None if the response does not fit even without all of these. ``wall`` is in Unix seconds.
        """
        body = body.for_query(query.edns)
        response = self.write(query, body, options, wall)
        excess = len(response) - limit
        if excess > 0 and body.cuts:
            response = self.write(query, body.shortened(len(body.records) - excess), options, wall)
        return response if len(response) <= limit else None

    def limit(self, query: Query, options: EdnsOptions, transport: int) -> int:
        """Return the maximum length in bytes of a response that the server sends to the client.

        To limit amplification attacks, clients without a valid cookie receive only short responses over UDP.
        """
        limit = self.payload_limit(query, transport)
        return limit if transport == TCP or options.valid_cookie else min(limit, self.udp_without_cookie)

    def payload_limit(self, query: Query, transport: int) -> int:
        """Return the maximum length in bytes of a response that the client accepts."""
        if transport == TCP:
            return MAX_TCP_MESSAGE
        return min(max(LEAST_PAYLOAD, query.edns.payload), self.payload) if query.edns else LEAST_PAYLOAD


class RecordWriter:
    """Writes the records that follow the question in a DNS message. ``parts`` lists the byte strings written so far."""

    def __init__(self, qname: bytes, exact_case: bool = False) -> None:
        """``qname`` is in wire form. If ``exact_case`` is true, name compression is case-sensitive."""
        self.parts: list[bytes] = []
        self._fold = bytes if exact_case else bytes.lower
        self._at = HEADER_LENGTH
        # By name: its offset in the lower 14 bits, and above them the number of pointers to follow from there
        self._places: dict[bytes, int] = {}
        self._learn(self._fold(qname), len(qname) - 1, 0)
        self._at += len(qname) + 4

    @property
    def size(self) -> int:
        """The length of the message so far, in bytes."""
        return self._at

    def add(self, records: Iterable[Record]) -> None:
        """Append ``records``, which all belong to one section."""
        for owner, rtype, ttl, rdata in records:
            self._name(owner)
            names = _RDATA_NAMES.get(rtype)
            if names is None:
                self._put(_RR_FIXED.pack(rtype, CLASS_IN, ttl, len(rdata)) + rdata)
                continue
            before = len(self.parts)
            self._put(b"")  # replaced by the fixed part once the length is known
            self._at += _RR_FIXED.size
            start = self._at
            names(self, rdata)
            self.parts[before] = _RR_FIXED.pack(rtype, CLASS_IN, ttl, self._at - start)

    def _put(self, data: bytes) -> None:
        self.parts.append(data)
        self._at += len(data)

    def _name(self, name: bytes) -> None:
        """Write a name, with a pointer in place of the longest suffix that the message already contains."""
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
        """Register the suffixes of the name ``folded`` that begin before index ``end``, so that later names can point
        to them.

        ``pointers`` is the number of compression pointers that a client must follow to read this name.
        """
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
        mname_end = skip_name(rdata, 0)
        rname_end = skip_name(rdata, mname_end)
        self._name(rdata[:mname_end])
        self._name(rdata[mname_end:rname_end])
        self._put(rdata[rname_end:])


#: The types of RFC 1035, the only ones whose rdata may hold compressed names (RFC 3597 section 4).
_RDATA_NAMES: Final[dict[int, Callable[[RecordWriter, bytes], None]]] = {
    Type.NS: RecordWriter.one_name,
    Type.CNAME: RecordWriter.one_name,
    Type.PTR: RecordWriter.one_name,
    Type.MX: RecordWriter.preference_and_name,
    Type.SOA: RecordWriter.soa,
}

"""One query -> one response, or none. Pure.

The short way is two look-ups and a join; the long way does everything right.

A query the table knows is found by its question in lower case, and its response by the bytes around the question.
Whatever is not found there is read strictly, answered, and, if others will ask the same, kept for the short way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns.answering.constants import CLASS_IN, META_TYPES, Rcode, Type
from lbdns.answering.edns import LEAST_PAYLOAD, OUR_PAYLOAD, Edns
from lbdns.answering.entry import TRANSPORTS, UDP, Entry, Variant, assemble, truncated
from lbdns.answering.message import Body
from lbdns.answering.query import Query, read_query
from lbdns.answering.table import Table
from lbdns.answering.ways import WAYS

_EMPTY: Final = Body(0, (0, 0, 0), b"")
MAX_TCP: Final = 65_535  # bytes


class Responder:
    """Answers queries from a table that can be swapped at any time by assigning ``table``."""

    __slots__ = ("table",)

    def __init__(self, table: Table) -> None:
        self.table = table

    def respond(self, query: bytes, transport: int = UDP) -> bytes | None:
        """The response to ``query`` over ``transport`` (UDP or TCP, without the length), or None for no answer."""
        end = query.find(0, 12) + 5
        entry = self.table.entries.get(query[12:end].lower())
        if entry is not None:
            try:
                variants = entry.variants[WAYS[query[2:12] + query[end:]]]
            except KeyError:
                variants = None
            if variants:
                handout = entry.handout
                if handout is None:
                    head, tail = variants[0]
                else:
                    try:
                        member = handout.order[handout.at]
                    except IndexError:
                        member = handout.wrap()
                    handout.at += 1
                    head, tail = variants[member]
                entry.asked[transport] += 1
                return b"".join((query[:2], head, query[12:end], tail))
        return self._respond_at_length(query, transport)

    def _respond_at_length(self, message: bytes, transport: int) -> bytes | None:
        query = read_query(message)
        if query is None:
            return None
        table = self.table
        refusal = query.error or _refusal(query)
        index = None if refusal else table.zone_of(query.qname, query.qtype)
        if index is None:
            rcode = refusal or Rcode.REFUSED
            table.count(("", query.qtype, TRANSPORTS[transport], rcode))
            return _join(query, assemble(_EMPTY, query.flags, query.edns, rcode))
        entry = table.entry(index, query.qname, query.qtype)
        if entry.kept:
            entry.asked[transport] += 1
            way = WAYS.get(message[2:12] + message[12 + len(query.question) :])
            if way is not None and entry.variants[way] is None:
                entry.variants[way] = _finished(entry, query)
        else:
            table.count((entry.zone, entry.qtype, TRANSPORTS[transport], entry.rcode))
        body = entry.bodies[entry.next_member()]
        return _join(query, _fit(body, query, transport))


def _finished(entry: Entry, query: Query) -> Sequence[Variant]:
    """The responses for the short way, if each fits every client over any transport; else none."""
    variants = [assemble(body, query.flags, query.edns) for body in entry.bodies]
    return variants if all(_length(query, variant) <= LEAST_PAYLOAD for variant in variants) else ()


def _refusal(query: Query) -> Rcode | None:
    """Why a sound query is not looked up at all."""
    if query.qtype == Type.OPT:
        return Rcode.FORMERR
    if query.qclass != CLASS_IN or query.qtype in META_TYPES:
        return Rcode.REFUSED
    return None


def _length(query: Query, variant: Variant) -> int:
    head, tail = variant
    return 2 + len(head) + len(query.question) + len(tail)


def _join(query: Query, variant: Variant) -> bytes:
    head, tail = variant
    if not query.question:
        head = head[:2] + b"\0\0" + head[4:]  # no sound question to echo, none counted
    return b"".join((query.id, head, query.question, tail))


def _fit(body: Body, query: Query, transport: int) -> Variant:
    """The response if the client takes one so long, else one with TC (glue is no reason to spare it: RFC 9471)."""
    limit = _limit(query.edns) if transport == UDP else MAX_TCP
    whole = assemble(body, query.flags, query.edns)
    if _length(query, whole) <= limit:
        return whole
    return assemble(truncated(body), query.flags, query.edns)


def _limit(edns: Edns | None) -> int:
    return min(max(LEAST_PAYLOAD, edns.payload), OUR_PAYLOAD) if edns else LEAST_PAYLOAD

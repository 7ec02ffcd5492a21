"""Sends queries to a responder as an independent client: dnspython writes the queries and reads the responses."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Final

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rdatatype
import dns.rrset

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.dns_constants import TCP, UDP
from lbdns.answering.plane import PYTHON_PLANE, Plane
from lbdns.answering.responder import Client, DeferredAnswer, Responder
from lbdns.model.farm import Farm
from tests.answering.farms import hobbit

__all__ = ["TCP", "UDP"]

ID: Final = 0x1234
FARM: Final = hobbit()  # read once: that takes longer than what is asked of it
#: owner, type, TTL and rdata, as text
Line = tuple[str, str, int, str]


_ports = itertools.count(1024)


def client() -> Client:
    """Return a new client each time, because a client that repeats a query receives the same answer again."""
    number = next(_ports)
    return (f"127.0.{number // 60_000}.1", 1024 + number % 60_000)


def make_query(
    name: str | dns.name.Name,
    rtype: str = "A",
    *,
    ident: int = ID,
    recurse: bool = False,
    payload: int | None = None,
    dnssec_ok: bool = False,
    version: int = 0,
    options: list[dns.edns.Option] | None = None,
) -> bytes:
    """Return a query in wire form; ``payload`` (in bytes) adds an OPT record with that UDP payload size."""
    query = dns.message.make_query(name, rtype, id=ident, flags=dns.flags.RD if recurse else 0)
    if payload is not None:
        flags = dns.flags.DO if dnssec_ok else 0
        query.use_edns(version, ednsflags=flags, payload=payload, options=options)
    return query.to_wire()


def with_additional(count: int, data: bytes, flags: int = 0x0100) -> bytes:
    """Return a query with ``data`` after the question. The header declares ``count`` additional records."""
    query = make_query("best.hobbit")
    return query[:2] + struct.pack("!HHHHH", flags, 1, 0, 0, count) + query[12:] + data


def read(wire: bytes | DeferredAnswer | None) -> dns.message.Message:
    """Parse a response strictly: the QR bit must be set, and trailing bytes are not allowed."""
    assert isinstance(wire, bytes)
    message = dns.message.from_wire(wire)
    assert message.flags & dns.flags.QR
    return message


def ask(responder: Responder, name: str | dns.name.Name, rtype: str = "A", transport: int = UDP) -> dns.message.Message:
    """Return the responder's response to a query, after checking the response's ID and question."""
    query = make_query(name, rtype)
    wire = responder.respond(query, client(), transport)
    message = read(wire)
    assert message.id == ID
    assert isinstance(wire, bytes)
    assert wire[12 : 12 + len(query) - 12] == query[12:], "the question is echoed as it was asked"
    return message


def make_responder(farm: Farm, plane: Plane = PYTHON_PLANE, secrets: Sequence[bytes] = ()) -> Responder:
    return Responder(AnswerTable(farm, plane), secrets)


def fresh() -> Responder:
    """Return a new responder for the zone ``hobbit`` that has not answered any query."""
    return make_responder(FARM)


def lines(section: list[dns.rrset.RRset]) -> list[Line]:
    """Return the records of a section in order."""
    return [
        (str(rrset.name), dns.rdatatype.to_text(rrset.rdtype), rrset.ttl, rdata.to_text())
        for rrset in section
        for rdata in rrset
    ]


def short(section: list[dns.rrset.RRset]) -> list[tuple[str, str, str]]:
    """Return the records of a section in order, without their TTLs."""
    return [(owner, rtype, rdata) for owner, rtype, _, rdata in lines(section)]

"""Upstream responses, written by dnspython."""

from __future__ import annotations

from typing import Final

import dns.edns
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

from lbdns.answering.relayed_query import CASE_BITS, UpstreamQuestion, upstream_query
from lbdns.answering.upstream_response import UpstreamResponse, read_upstream_response

IDENT: Final = b"\xca\xfe"
ALL_CAPITALS: Final = 2**CASE_BITS - 1
NAME: Final = "www.example.org"
QUESTION: Final = UpstreamQuestion(dns.name.from_text(NAME).to_wire() or b"", dns.rdatatype.A, False, False)
ASKED: Final = upstream_query(QUESTION, IDENT, 0b10110_0010)
A_RECORD: Final = f"{NAME}. 60 IN A 192.0.2.80"


def answer(
    asked: bytes, *records: str, rcode: dns.rcode.Rcode = dns.rcode.NOERROR, flags: int = 0, edns: bool = True
) -> dns.message.Message:
    """Return an upstream's response; each record has the form "owner TTL IN TYPE rdata"."""
    query = dns.message.from_wire(asked)
    response = dns.message.make_response(query, recursion_available=True)
    response.flags |= flags
    if edns:
        cookie = dns.edns.GenericOption(dns.edns.COOKIE, b"12345678" * 2)
        response.use_edns(0, ednsflags=query.ednsflags, payload=4096, options=[cookie])
    else:
        response.use_edns(False)
    response.set_rcode(rcode)
    for record in records:
        owner, ttl, rclass, rtype, rdata = record.split(maxsplit=4)
        response.answer.append(dns.rrset.from_text(owner, int(ttl), rclass, rtype, rdata))
    return response


def heard(asked: bytes, *records: str, rcode: dns.rcode.Rcode = dns.rcode.NOERROR, flags: int = 0) -> UpstreamResponse:
    found = read_upstream_response(asked, answer(asked, *records, rcode=rcode, flags=flags).to_wire())
    assert found is not None
    return found

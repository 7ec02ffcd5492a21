"""Tests of writing messages: dnspython reads back the same records, and names are compressed."""

from __future__ import annotations

import struct

import dns.message
import dns.name
import dns.rdata
import dns.rdatatype
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering.dns_constants import Rcode, Type
from lbdns.answering.message_writer import AnswerSections, Record, ResponseBody, write_body

LABELS = st.sampled_from([b"a", b"b", b"best", b"hobbit", b"\0", b"A.b", b"x" * 63])
NAMES = st.lists(LABELS, max_size=3).map(lambda labels: dns.name.Name([*labels, b""]).to_wire() or b"")


def u16(number: int) -> bytes:
    return number.to_bytes(2, "big")


RDATA = st.one_of(
    st.tuples(st.just(Type.A), st.binary(min_size=4, max_size=4)),
    st.tuples(st.sampled_from([Type.NS, Type.CNAME, Type.PTR, Type.DNAME]), NAMES),
    st.tuples(st.just(Type.MX), st.builds(lambda n, name: u16(n) + name, st.integers(0, 65535), NAMES)),
    st.tuples(st.just(Type.SRV), st.builds(lambda n, name: u16(n) * 3 + name, st.integers(0, 65535), NAMES)),
    st.tuples(st.just(Type.SOA), st.builds(lambda m, r, n: m + r + struct.pack("!5I", *[n] * 5), NAMES, NAMES,
                                           st.integers(0, 2**31 - 1))),
    st.tuples(st.just(65400), st.binary(max_size=40)),
)  # fmt: skip
RECORDS = st.lists(
    st.builds(lambda owner, rdata, ttl: Record(owner.lower(), rdata[0], ttl, rdata[1]),
              NAMES, RDATA, st.integers(0, 2**31 - 1)),
    max_size=5,
).map(tuple)  # fmt: skip


def whole(body: ResponseBody, qname: bytes) -> bytes:
    return struct.pack("!HHHHHH", 1, 0x8000 | body.flags, 1, *body.counts) + qname + b"\0\1\0\1" + body.records


def read_records(wire: bytes) -> list[list[Record]]:
    """Return the records of each section in order, with uncompressed rdata."""
    message = dns.message.from_wire(wire, one_rr_per_rrset=True)
    return [
        [Record(rrset.name.to_wire() or b"", rrset.rdtype, rrset.ttl, rrset[0].to_wire() or b"") for rrset in section]
        for section in (message.answer, message.authority, message.additional)
    ]


def folded(records: tuple[Record, ...] | list[Record]) -> list[tuple[bytes, int, int, bytes]]:
    """Return the records in lower case, because a compressed name copies the letter case of its first occurrence."""
    return [(owner.lower(), int(rtype), ttl, rdata.lower()) for owner, rtype, ttl, rdata in records]


@settings(deadline=None)
@given(NAMES, RECORDS, RECORDS, RECORDS, st.booleans(), st.sampled_from([Rcode.NOERROR, Rcode.NXDOMAIN]))
def test_dnspython_reads_what_is_written(
    qname: bytes,
    answer: tuple[Record, ...],
    authority: tuple[Record, ...],
    additional: tuple[Record, ...],
    authoritative: bool,
    rcode: Rcode,
) -> None:
    body = write_body(AnswerSections(rcode, authoritative, answer, authority, additional), qname.lower())
    wire = whole(body, qname.lower())
    assert body.flags == (0x0400 if authoritative else 0) | rcode
    assert [folded(section) for section in read_records(wire)] == [
        folded(section) for section in (answer, authority, additional)
    ]


BEST = b"\x04best\x06hobbit\0"
BILBO = b"\x05bilbo\x06hobbit\0"


def test_owner_and_target_point_to_the_question() -> None:
    answer = (Record(BEST, Type.CNAME, 0, BILBO), Record(BILBO, Type.A, 0, b"\x7f\0\0\x10"))
    body = write_body(AnswerSections(answer=answer), BEST)
    # best -> 12; bilbo.hobbit -> a label and the pointer to "hobbit" at 17; then bilbo at 12 + 17 + 12
    assert body.records == (
        b"\xc0\x0c\0\5\0\1\0\0\0\0\0\x08\x05bilbo\xc0\x11" + b"\xc0\x29\0\1\0\1\0\0\0\0\0\4\x7f\0\0\x10"
    )


@pytest.mark.parametrize("rtype", [Type.DNAME, Type.SRV, Type.NAPTR])
def test_names_in_newer_types_are_not_compressed(rtype: Type) -> None:
    rdata = {Type.DNAME: BEST, Type.SRV: b"\0\0\0\0\0\x50" + BEST, Type.NAPTR: b"\0\1\0\1\0\0\0" + BEST}[rtype]
    assert write_body(AnswerSections(answer=(Record(BEST, rtype, 0, rdata),)), BEST).records.endswith(BEST)


def test_what_lies_beyond_the_reach_of_a_pointer_is_written_out() -> None:
    padding = tuple(Record(BEST, 65400, 0, bytes(4000)) for _ in range(5))
    late = (Record(BILBO, Type.A, 0, bytes(4)), Record(BILBO, Type.AAAA, 0, bytes(16)))
    wire = whole(write_body(AnswerSections(answer=padding + late), BEST), BEST)
    assert len(wire) > 0x4000
    assert read_records(wire)[0] == list(padding + late)

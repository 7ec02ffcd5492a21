"""Tests of the strict query reader: valid queries, queries answered with an error, and ignored queries."""

from __future__ import annotations

import struct
from time import process_time

import dns.edns
import dns.message
import dns.name
import dns.rdataclass
import dns.rdatatype
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering.dns_constants import Rcode
from lbdns.answering.query_reader import MAX_ADDITIONAL, read_query
from tests.answering.asking import make_query

QUESTION = b"\x04best\x06hobbit\0\0\1\0\1"
OPT = b"\0\0\x29\x04\xd0\0\0\0\0\0\0"


def message(
    after: bytes = QUESTION, flags: int = 0, counts: tuple[int, int, int, int] = (1, 0, 0, 0), ident: bytes = b"id"
) -> bytes:
    return ident + struct.pack("!HHHHH", flags, *counts) + after


@pytest.mark.parametrize("length", range(12))
def test_what_is_shorter_than_a_header_gets_no_answer(length: int) -> None:
    assert read_query(message()[:length]) is None


@pytest.mark.parametrize("flags", [0x8000, 0x8180, 0xF800, 0x8400])
def test_a_response_gets_no_answer(flags: int) -> None:
    assert read_query(message(flags=flags)) is None


@pytest.mark.parametrize("opcode", range(1, 16))
def test_another_opcode_is_not_implemented(opcode: int) -> None:
    query = read_query(message(flags=opcode << 11 | 0x0100))
    assert query is not None
    assert query.error is Rcode.NOTIMP
    assert query.flags == opcode << 11 | 0x0100


MALFORMED = {
    "no question": message(b"", counts=(0, 0, 0, 0)),
    "no question, but EDNS": message(OPT, counts=(0, 0, 0, 1)),
    "no question, another option than a cookie": message(OPT[:-2] + b"\0\4\0\3\0\0", counts=(0, 0, 0, 1)),
    "no question, a cookie and a byte behind": message(OPT[:-2] + b"\0\x0c\0\x0a\0\x0812345678x", counts=(0, 0, 0, 1)),
    "no question, an authority": message(b"\0\0\6\0\1\0\0\0\0\0\0", counts=(0, 0, 1, 0)),
    "question counted, none there": message(b""),
    "two questions": message(QUESTION * 2, counts=(2, 0, 0, 0)),
    "an answer": message(QUESTION + b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\1\2\3\4", counts=(1, 1, 0, 0)),
    "an authority": message(QUESTION + b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\1\2\3\4", counts=(1, 0, 1, 0)),
    "name cut": message(b"\x04bes"),
    "name without end": message(b"\x04best"),
    "type cut": message(QUESTION[:-3]),
    "class cut": message(QUESTION[:-1]),
    "pointer in the question": message(b"\xc0\x0c\0\1\0\1"),
    "pointer to itself after a label": message(b"\x01a\xc0\x0c\0\1\0\1"),
    "label type 01": message(b"\x41" + b"a" * 65 + b"\0\0\1\0\1"),
    "label type 10": message(b"\x80a\0\0\1\0\1"),
    "name of 256 octets": message((b"\x3f" + b"a" * 63) * 3 + b"\x3e" + b"a" * 62 + b"\0" + b"\0\1\0\1"),
    "a byte behind": message(QUESTION + b"\0"),
    "additional counted, none there": message(counts=(1, 0, 0, 1)),
    "OPT not counted": message(QUESTION + OPT),
    "OPT cut": message(QUESTION + OPT[:-1], counts=(1, 0, 0, 1)),
    "two OPTs": message(QUESTION + OPT * 2, counts=(1, 0, 0, 2)),
    "OPT with a name": message(QUESTION + b"\x01a" + OPT, counts=(1, 0, 0, 1)),
    "OPT owned by a pointer": message(QUESTION + b"\xc0\x17" + OPT[1:], counts=(1, 0, 0, 1)),
    "option cut": message(QUESTION + OPT[:-2] + b"\0\5\0\x0a\0\x09x", counts=(1, 0, 0, 1)),
    "option header cut": message(QUESTION + OPT[:-2] + b"\0\3\0\x0a\0", counts=(1, 0, 0, 1)),
    "rdata longer than the message": message(QUESTION + OPT[:-2] + b"\xff\xff", counts=(1, 0, 0, 1)),
    "a byte behind the OPT": message(QUESTION + OPT + b"\0", counts=(1, 0, 0, 1)),
    "more additional records than a query has": message(
        QUESTION + b"\0\0\1\0\1\0\0\0\0\0\0" * (MAX_ADDITIONAL + 1), counts=(1, 0, 0, MAX_ADDITIONAL + 1)
    ),
    "additional name is a cut pointer": message(QUESTION + b"\xc0", counts=(1, 0, 0, 1)),
}


@pytest.mark.parametrize("wire", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_query_is_a_format_error(wire: bytes) -> None:
    query = read_query(wire)
    assert query is not None
    assert query.error is Rcode.FORMERR
    assert query.id == b"id"


def test_a_name_of_255_octets_is_sound() -> None:
    name = (b"\x3f" + b"a" * 63) * 3 + b"\x3d" + b"a" * 61 + b"\0"
    assert len(name) == 255
    query = read_query(message(name + b"\0\1\0\1"))
    assert query is not None
    assert (query.error, query.qname) == (Rcode.NOERROR, name)


def test_another_version_of_edns_is_bad() -> None:
    query = read_query(make_query("best.hobbit", payload=1232, version=1))
    assert query is not None
    assert query.error is Rcode.BADVERS
    assert query.edns is not None
    assert query.question == QUESTION


def test_other_additional_records_are_read_over() -> None:
    tsig = b"\x03key\0" + struct.pack("!HHIH", 250, 255, 0, 3) + b"abc"
    query = read_query(message(QUESTION + OPT + tsig, counts=(1, 0, 0, 2)))
    assert query is not None
    assert query.error is Rcode.NOERROR
    assert query.edns is not None
    assert query.edns.payload == 1232


@pytest.mark.parametrize("cookie", [b"12345678", b"12345678" * 3, b"", b"1"])
def test_a_cookie_alone_is_sound(cookie: bytes) -> None:
    # RFC 7873 section 5.4; what the cookie is worth is for others to say
    option = b"\0\x0a" + len(cookie).to_bytes(2, "big") + cookie
    query = read_query(message(OPT[:-2] + len(option).to_bytes(2, "big") + option, counts=(0, 0, 0, 1)))
    assert query is not None
    assert query.error is Rcode.NOERROR
    assert (query.question, query.qname) == (b"", b"")
    assert query.edns is not None
    assert query.edns.options == ((10, cookie),)


def test_a_cookie_alone_of_another_version_is_bad() -> None:
    option = b"\0\x0a\0\x0812345678"
    opt = OPT[:6] + b"\1" + OPT[7:-2] + b"\0\x0c" + option
    query = read_query(message(opt, counts=(0, 0, 0, 1)))
    assert query is not None
    assert query.error is Rcode.BADVERS


SOA = b"\xc0\x0c\0\6\0\1\0\0\0\0\0\x18\xc0\x0c\xc0\x0c" + struct.pack("!IIIII", 2026112101, 1, 2, 3, 4)
IXFR = QUESTION[:-4] + b"\0\xfb\0\1"


def test_the_serial_of_an_ixfr_is_read() -> None:
    query = read_query(message(IXFR + SOA, counts=(1, 0, 1, 0)))
    assert query is not None
    assert (query.error, query.serial) == (Rcode.NOERROR, 2026112101)
    with_opt = read_query(message(IXFR + SOA + OPT, counts=(1, 0, 1, 1)))
    assert with_opt is not None
    assert with_opt.edns is not None
    assert (with_opt.error, with_opt.serial, with_opt.edns.payload) == (Rcode.NOERROR, 2026112101, 1232)


@pytest.mark.parametrize(
    "wire",
    [
        message(QUESTION + SOA, counts=(1, 0, 1, 0)),
        message(IXFR + SOA * 2, counts=(1, 0, 2, 0)),
        message(IXFR + SOA[:-1], counts=(1, 0, 1, 0)),
        message(IXFR + SOA[:3] + b"\2" + SOA[4:], counts=(1, 0, 1, 0)),
        message(IXFR + SOA[:10] + b"\0\x13" + SOA[-19:], counts=(1, 0, 1, 0)),
        message(IXFR, counts=(1, 0, 1, 0)),
    ],
    ids=["of another type", "two", "cut", "another record", "too short", "missing"],
)
def test_an_authority_that_is_no_soa_of_an_ixfr_is_a_format_error(wire: bytes) -> None:
    query = read_query(wire)
    assert query is not None
    assert query.error is Rcode.FORMERR


TSIG = b"\x03key\0" + struct.pack("!HHIH", 250, 255, 0, 3) + b"abc"


def test_a_tsig_is_the_last_record() -> None:
    last = read_query(message(QUESTION + OPT + TSIG, counts=(1, 0, 0, 2)))
    assert last is not None
    assert (last.error, last.tsig_at) == (Rcode.NOERROR, 12 + len(QUESTION) + len(OPT))
    for after, count in ((TSIG + OPT, 2), (TSIG + TSIG, 2), (TSIG + b"x", 1)):
        query = read_query(message(QUESTION + after, counts=(1, 0, 0, count)))
        assert query is not None
        assert query.error is Rcode.FORMERR


def test_options_are_read_in_order() -> None:
    options: list[dns.edns.Option] = [
        dns.edns.GenericOption("COOKIE", b"12345678"),
        dns.edns.GenericOption(dns.edns.OptionType.make(65001), b""),
    ]
    query = read_query(make_query("best.hobbit", payload=4096, dnssec_ok=True, options=options))
    assert query is not None
    assert query.edns is not None
    assert query.edns.options == ((10, b"12345678"), (65001, b""))
    assert (query.edns.payload, query.edns.version, query.edns.dnssec_ok) == (4096, 0, True)


LABEL = st.binary(min_size=1, max_size=63)
NAMES = st.lists(LABEL, max_size=6).map(lambda labels: dns.name.Name([*labels[:3], b""]))


@settings(deadline=None)
@given(
    NAMES, st.integers(0, 65535), st.integers(0, 65535), st.none() | st.integers(0, 65535), st.booleans(), st.booleans()
)
def test_reads_what_dnspython_writes(
    name: dns.name.Name, rtype: int, rclass: int, payload: int | None, dnssec_ok: bool, recurse: bool
) -> None:
    question = name.to_wire() or b""
    wire = message(question + struct.pack("!HH", rtype, rclass), flags=0x0100 if recurse else 0)
    if payload is not None:
        made = dns.message.make_query(name, "A", use_edns=0, payload=payload, want_dnssec=dnssec_ok)
        opt = made.to_wire()[-11:]
        wire = wire[:11] + b"\1" + wire[12:] + opt
    query = read_query(wire)
    assert query is not None
    assert query.error is Rcode.NOERROR
    assert query.qname == question.lower()
    assert (query.qtype, query.qclass) == (rtype, rclass)
    assert query.question == question + struct.pack("!HH", rtype, rclass)
    if payload is None:
        assert query.edns is None
    else:
        assert query.edns is not None
        # dnspython asks for 512 at least when DNSSEC is wanted; what it wrote is what counts
        assert query.edns.payload == int.from_bytes(wire[-8:-6], "big")
        assert query.edns.dnssec_ok is dnssec_ok


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(wire: bytes) -> None:
    query = read_query(wire)
    if len(wire) < 12 or wire[2] & 0x80:
        assert query is None
        return
    assert query is not None
    assert query.id == wire[:2]
    if query.error is Rcode.NOERROR:
        assert wire[12:].startswith(query.question)
        assert dns.message.from_wire(wire).question


@pytest.mark.parametrize(
    "wire",
    [
        message(QUESTION + b"\xc0\x0c" * 30_000, counts=(1, 0, 0, 65535)),
        message(b"\x01a" * 30_000),
        message(QUESTION + (b"\x3f" + b"a" * 63) * 900, counts=(1, 0, 0, 8)),
        message(QUESTION + OPT[:-2] + b"\xfb\xf4" + b"\0\1\0\0" * 16125, counts=(1, 0, 0, 1)),
    ],
    ids=["pointers", "labels", "long names", "16,125 options"],
)
def test_the_work_is_bounded_whatever_arrives(wire: bytes) -> None:
    began = process_time()
    for _ in range(10):
        read_query(wire)
    # The longest message there can be; a datagram is cut at 4096 bytes before it gets here
    assert (process_time() - began) / 10 < 0.05

"""Tests of responses that do not depend on any zone."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import pytest

from lbdns.answering.dns_constants import Rcode
from lbdns.answering.edns import NO_OPTIONS, Edns, EdnsOptions
from lbdns.answering.error_responses import about_server, error_response
from lbdns.answering.message_writer import EMPTY_BODY, without_records, write_variant
from lbdns.answering.query_reader import Query, read_query
from lbdns.config import ServerConfig
from lbdns.zones.names import from_text
from tests.answering.asking import make_query

EDNS = Edns(1232, 0, False)
WITH_COOKIE = EdnsOptions(asks_cookie=True)
WRONG_COOKIE = EdnsOptions(asks_cookie=True, has_server_cookie=True)
VALID_COOKIE = EdnsOptions(asks_cookie=True, has_server_cookie=True, valid_cookie=True)
IDENTITY, VERSION = "ns1 of the Shire, ÄÖ", "lbdns 1.0"
BOTH = ServerConfig(identity=IDENTITY, version=VERSION)


def asked(name: str, rtype: str, rclass: int = 1) -> Query:
    query = read_query(make_query(name, rtype)[:-2] + rclass.to_bytes(2, "big"))
    assert query is not None
    return query


def rcode(query: Query, options: EdnsOptions = NO_OPTIONS, server: ServerConfig | None = None) -> Rcode | None:
    found = error_response(query, options, server or ServerConfig())
    if found is None:
        return None
    body, full = found
    assert body.flags & 0xF == full & 0xF
    return full


@pytest.mark.parametrize("rtype", ["A", "TXT", "ANY", "TYPE65280", "AXFR", "IXFR"])
def test_zones_have_to_be_asked(rtype: str) -> None:
    assert rcode(asked("best.hobbit", rtype)) is None


@pytest.mark.parametrize(
    ("rtype", "expected"), [("OPT", Rcode.FORMERR), ("MAILA", Rcode.REFUSED), ("TSIG", Rcode.REFUSED)]
)
def test_what_is_no_type_of_records(rtype: str, expected: Rcode) -> None:
    assert rcode(asked("best.hobbit", rtype)) is expected


@pytest.mark.parametrize("rclass", [0, 2, 4, 254, 255])
def test_other_classes_are_refused(rclass: int) -> None:
    assert rcode(asked("best.hobbit", "A", rclass)) is Rcode.REFUSED


def test_errors_of_the_query_and_of_its_options_come_first() -> None:
    assert rcode(Query(b"id", 0, error=Rcode.NOTIMP)) is Rcode.NOTIMP
    assert rcode(asked("version.bind", "TXT", 3), EdnsOptions(sound=False), ServerConfig(version="x")) is Rcode.FORMERR


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (NO_OPTIONS, Rcode.FORMERR),
        (WITH_COOKIE, Rcode.NOERROR),
        (VALID_COOKIE, Rcode.NOERROR),
        (WRONG_COOKIE, Rcode.BADCOOKIE),
    ],
)
def test_without_a_question_a_cookie_is_asked_for(options: EdnsOptions, expected: Rcode) -> None:
    assert rcode(Query(b"id", 0, edns=EDNS), options) is expected


def test_the_server_says_of_itself_what_it_was_told_to() -> None:
    assert rcode(asked("version.bind", "TXT", 3)) is Rcode.REFUSED
    assert rcode(asked("version.bind", "TXT", 3), server=ServerConfig(version="x")) is Rcode.NOERROR


def test_said() -> None:
    assert without_records(Rcode.BADCOOKIE).flags == 23 & 0xF
    assert (EMPTY_BODY.flags, EMPTY_BODY.counts, EMPTY_BODY.records) == (0, (0, 0, 0), b"")


def answered(name: str, rtype: str, config: ServerConfig) -> dns.message.Message | None:
    """Return the response as dnspython reads it, or None if there is no response."""
    query = dns.message.make_query(name, rtype, dns.rdataclass.CH)
    wire = query.to_wire()
    body = about_server(from_text(name), int(query.question[0].rdtype), config)
    if body is None:
        return None
    head, tail = write_variant(body, 0, None)
    return dns.message.from_wire(wire[:2] + head + wire[12:] + tail)


@pytest.mark.parametrize(
    ("name", "text"),
    [("version.bind", VERSION), ("version.server", VERSION), ("id.server", IDENTITY), ("hostname.bind", IDENTITY)],
)
@pytest.mark.parametrize("rtype", ["TXT", "ANY"])
def test_the_configured_text_is_answered(name: str, text: str, rtype: str) -> None:
    message = answered(name, rtype, BOTH)
    assert message is not None
    assert message.flags & dns.flags.AA
    (rrset,) = message.answer
    assert (str(rrset.name), rrset.rdclass, rrset.rdtype, rrset.ttl) == (
        f"{name}.",
        dns.rdataclass.CH,
        dns.rdatatype.TXT,
        0,
    )
    assert rrset[0].strings == (text.encode(),)


@pytest.mark.parametrize("name", ["version.bind", "version.server", "id.server", "hostname.bind"])
def test_names_without_a_configured_text_are_not_answered(name: str) -> None:
    assert answered(name, "TXT", ServerConfig()) is None
    alone = ServerConfig(version=VERSION) if "version" not in name else ServerConfig(identity=IDENTITY)
    assert answered(name, "TXT", alone) is None


@pytest.mark.parametrize("name", ["authors.bind", "bind", ".", "x.version.bind", "hobbit"])
def test_other_names_of_class_chaos_are_not_answered(name: str) -> None:
    assert answered(name, "TXT", BOTH) is None


@pytest.mark.parametrize("rtype", ["A", "SOA", "NS", "AXFR"])
def test_other_types_of_class_chaos_are_not_answered(rtype: str) -> None:
    assert answered("version.bind", rtype, BOTH) is None


def test_the_longest_identity() -> None:
    message = answered("id.server", "TXT", ServerConfig(identity="x" * 255))
    assert message is not None
    assert message.answer[0][0].strings == (b"x" * 255,)

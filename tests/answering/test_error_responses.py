"""What is said without a look at any zone."""

from __future__ import annotations

import pytest

from lbdns.answering.dns_constants import Rcode
from lbdns.answering.edns import NO_OPTIONS, Edns, EdnsOptions
from lbdns.answering.error_responses import error_response
from lbdns.answering.message_writer import EMPTY_BODY, without_records
from lbdns.answering.query_reader import Query, read_query
from lbdns.config import ServerConfig
from tests.answering.asking import make_query

EDNS = Edns(1232, 0, False)
WITH_COOKIE = EdnsOptions(asks_cookie=True)
WRONG_COOKIE = EdnsOptions(asks_cookie=True, has_server_cookie=True)
VALID_COOKIE = EdnsOptions(asks_cookie=True, has_server_cookie=True, valid_cookie=True)


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

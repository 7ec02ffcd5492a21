"""Tests of which messages are accepted as an upstream's response, and which of their records are kept."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import dns.flags
import dns.rcode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.relayed_query import upstream_query
from lbdns.answering.upstream_response import read_upstream_response, same_case
from tests.answering.upstream_answers import A_RECORD, ALL_CAPITALS, ASKED, IDENT, NAME, QUESTION, answer, heard


def test_a_good_one() -> None:
    found = heard(ASKED, A_RECORD)
    assert (found.rcode, found.counts, found.failed, found.truncated) == (0, (1, 0, 0), False, False)
    assert found.records.endswith(bytes((0, 4, 192, 0, 2, 80))), "and no OPT behind it"


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("another id", lambda wire: b"\xca\xff" + wire[2:]),
        ("a query", lambda wire: wire[:2] + bytes((wire[2] & 0x7F,)) + wire[3:]),
        ("another opcode", lambda wire: wire[:2] + bytes((wire[2] | 0x10,)) + wire[3:]),
        ("no question", lambda wire: wire[:4] + b"\0\0" + wire[6:]),
        ("two questions", lambda wire: wire[:4] + b"\0\2" + wire[6:]),
        ("another name", lambda wire: wire.replace(b"\3", b"\3", 1).replace(b"ww", b"vv", 1)),
        ("another type", lambda wire: wire[:30] + b"\0\5" + wire[32:]),
        ("a type that is the same in lower case", lambda wire: wire[:30] + b"\0\x21" + wire[32:]),
        ("another class", lambda wire: wire[:32] + b"\0\3" + wire[34:]),
        ("more records counted", lambda wire: wire[:6] + b"\0\2" + wire[8:]),
        ("fewer records counted", lambda wire: wire[:6] + b"\0\0" + wire[8:]),
        ("a byte behind", lambda wire: wire + b"\0"),
        ("nothing", lambda wire: b""),
        ("a header", lambda wire: wire[:12]),
    ],
)
def test_what_is_no_answer_to_it(what: str, change: object) -> None:
    wire = answer(ASKED, A_RECORD).to_wire()
    assert read_upstream_response(ASKED, wire), "unchanged it is one"
    assert callable(change)
    assert change(wire) != wire, what
    assert read_upstream_response(ASKED, change(wire)) is None


def test_cut_anywhere_it_is_none() -> None:
    wire = answer(ASKED, A_RECORD, f"{NAME}. 5 IN MX 10 mail.example.org.").to_wire()
    assert [n for n in range(len(wire)) if read_upstream_response(ASKED, wire[:n])] == []


@given(st.binary(max_size=80))
def test_any_bytes_behind_a_right_header(rest: bytes) -> None:
    start = answer(ASKED, edns=False).to_wire()
    found = read_upstream_response(ASKED, start[:6] + b"\0\1\0\0\0\1" + start[12:] + rest)
    assert found is None or len(found.records) <= len(rest)


@given(st.binary(max_size=120))
def test_any_bytes(message: bytes) -> None:
    found = read_upstream_response(ASKED, message)
    assert found is None or message[:2] == IDENT


@pytest.mark.parametrize(
    ("owner", "sound"),
    [
        (b"\0", True),
        (b"\xc0\x0c", True),
        (b"\xc0\x10", True),
        (b"\3cdn\xc0\x10", True),
        (b"\xc0\x1c", True),  # the root at the end of the question's name
        (b"\xc0\x00", False),  # into the header
        (b"\xc0\x21", False),  # to itself
        (b"\1x\xc0\x21", False),
        (b"\xc0\x23", False),  # ahead
        (b"\xff\xff", False),
        (b"\xc0", False),
        (b"\x40" + b"x" * 64 + b"\0", False),
        (b"\3cd", False),
    ],
)
def test_names_that_lead_nowhere(owner: bytes, sound: bool) -> None:
    start = answer(ASKED, edns=False).to_wire()
    assert len(start) == 0x21
    record = owner + b"\0\1\0\1\0\0\0\5\0\4\xc0\0\2\1" if len(owner) > 1 or not owner[0] else owner
    assert bool(read_upstream_response(ASKED, start[:6] + b"\0\1\0\0\0\0" + start[12:] + record)) is sound


def test_reading_the_worst_takes_no_time() -> None:
    name = b"\1x" * 126 + b"\0"
    asked = upstream_query(replace(QUESTION, qname=name), IDENT, 0)
    start = answer(asked, edns=False).to_wire()
    many = (65_535 - len(start)) // 16
    record = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\xc0\0\2\1"
    message = start[:6] + many.to_bytes(2, "big") + bytes(4) + start[12:] + record * many
    began = process_time()
    assert read_upstream_response(asked, message)
    assert process_time() - began < 0.2, "following 4000 names of 126 labels would take longer"


def test_the_letter_case() -> None:
    right = answer(ASKED, A_RECORD).to_wire()
    wrong = right.replace(ASKED[12:29], ASKED[12:29].lower(), 1)
    assert same_case(ASKED, right)
    assert not same_case(ASKED, wrong)
    assert read_upstream_response(ASKED, wrong), "for TCP it is good enough"


def test_a_name_with_zero_bytes_in_it() -> None:
    asked = upstream_query(replace(QUESTION, qname=b"\3a\0b\3org\0"), IDENT, ALL_CAPITALS)
    assert read_upstream_response(asked, answer(asked).to_wire())
    other = asked.replace(b"\3A\0B", b"\3A\0C")
    assert read_upstream_response(asked, answer(other).to_wire()) is None
    assert not same_case(asked, answer(asked.replace(b"\3A\0B", b"\3A\0b")).to_wire())


@pytest.mark.parametrize("rcode", [code for code in range(24) if code not in (0, 3, 6)])
def test_what_says_nothing_of_the_name_failed(rcode: int) -> None:
    assert heard(ASKED, rcode=dns.rcode.Rcode(rcode)).failed


@pytest.mark.parametrize("rcode", [dns.rcode.NOERROR, dns.rcode.NXDOMAIN, dns.rcode.YXDOMAIN])
def test_what_says_something(rcode: dns.rcode.Rcode) -> None:
    assert not heard(ASKED, rcode=rcode).failed


def test_a_referral_of_who_does_not_recurse_failed() -> None:
    wire = answer(ASKED)
    wire.flags &= ~dns.flags.RA
    found = read_upstream_response(ASKED, wire.to_wire())
    assert found is not None
    assert found.failed
    wire.flags |= dns.flags.AA
    found = read_upstream_response(ASKED, wire.to_wire())
    assert found is not None
    assert not found.failed, "who has the zone needs no recursion"


def test_cut_short() -> None:
    assert heard(ASKED, flags=dns.flags.TC).truncated


def test_two_opts_or_one_in_the_wrong_place() -> None:
    wire = answer(ASKED, A_RECORD).to_wire()
    opt = wire[wire.index(b"\0\0\x29\x10\0") :]
    assert read_upstream_response(ASKED, wire[:10] + b"\0\2" + wire[12:] + opt) is None
    start = answer(ASKED, edns=False).to_wire()
    assert read_upstream_response(ASKED, start[:6] + b"\0\1\0\0\0\0" + start[12:] + opt) is None
    assert read_upstream_response(ASKED, start[:6] + b"\0\0\0\0\0\1" + start[12:] + b"\1x" + opt) is None


def test_what_stands_behind_the_opt_is_left_out() -> None:
    start = answer(ASKED, edns=False).to_wire()
    opt, glue = b"\0\0\x29\x10\0\0\0\0\0\0\0", b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\xc0\0\2\1"
    found = read_upstream_response(ASKED, start[:6] + b"\0\0\0\0\0\3" + start[12:] + glue + opt + glue)
    assert found is not None
    assert (found.counts, found.records) == ((0, 0, 1), glue)


def test_cut_short_in_the_middle_of_a_record() -> None:
    wire = answer(ASKED, A_RECORD, flags=dns.flags.TC).to_wire()
    for length in range(len(ASKED) - 11, len(wire)):
        found = read_upstream_response(ASKED, wire[:length])
        assert found is not None
        assert (found.truncated, found.counts, found.records) == (True, (0, 0, 0), b"")

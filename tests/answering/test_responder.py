"""Tests of the response to a single query: EDNS, malformed queries, refused queries, and truncated responses."""

from __future__ import annotations

import struct
from typing import Any

import dns.edns
import dns.flags
import dns.rcode
import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.message_writer import ResponseWriter
from lbdns.answering.plane import Plane
from tests.answering.asking import (
    TCP,
    UDP,
    ask,
    client,
    fresh,
    make_query,
    make_responder,
    read,
    short,
    with_additional,
)
from tests.answering.farms import hobbit, pool
from tests.planes import PLANES

# EDNS


@pytest.mark.parametrize("payload", [0, 100, 511, 512, 1232, 65535])
@pytest.mark.parametrize("dnssec_ok", [False, True])
def test_edns_is_answered_with_edns(payload: int, dnssec_ok: bool) -> None:
    message = read(fresh().respond(make_query("best.hobbit", payload=payload, dnssec_ok=dnssec_ok), client()))
    assert (message.edns, message.payload) == (0, 1232)
    assert bool(message.ednsflags & dns.flags.DO) is dnssec_ok
    assert message.rcode() == dns.rcode.NOERROR
    assert len(message.answer) == 2, "512 bytes are taken by every client, whatever it says"


def test_no_edns_is_answered_without() -> None:
    assert read(fresh().respond(make_query("best.hobbit"), client())).edns == -1


def test_options_are_not_echoed() -> None:
    options: list[dns.edns.Option] = [
        dns.edns.GenericOption("COOKIE", b"12345678"),
        dns.edns.GenericOption(dns.edns.OptionType.make(65001), b"x" * 300),
    ]
    message = read(fresh().respond(make_query("best.hobbit", payload=1232, options=options), client()))
    assert message.options == ()
    assert len(message.answer) == 2


@pytest.mark.parametrize("version", [1, 2, 255])
def test_another_version(version: int) -> None:
    message = read(fresh().respond(make_query("best.hobbit", payload=1232, version=version, dnssec_ok=True), client()))
    assert message.rcode() == dns.rcode.BADVERS
    assert (message.edns, message.answer) == (0, [])
    assert message.ednsflags & dns.flags.DO


OPT = make_query("best.hobbit", payload=1232)[-11:]


@pytest.mark.parametrize(
    "query",
    [
        with_additional(2, OPT * 2),
        with_additional(1, OPT[:-2] + b"\0\3abc"),
        with_additional(1, OPT + b"x"),
        with_additional(0, b"x"),
        with_additional(0, OPT),
        with_additional(2, OPT),
        with_additional(9, OPT * 9),
    ],
    ids=["two OPTs", "bad option", "trailing byte", "trailing without OPT", "not counted", "one missing", "nine"],
)
def test_format_errors(query: bytes) -> None:
    message = read(fresh().respond(query, client()))
    assert message.rcode() == dns.rcode.FORMERR
    assert message.flags & dns.flags.RD
    assert not message.flags & dns.flags.AA
    assert message.answer == message.authority == []


@pytest.mark.parametrize("count", [0, 2, 65535])
def test_not_one_question(count: int) -> None:
    question = make_query("best.hobbit")[12:]
    message = read(fresh().respond(struct.pack("!HHHHHH", 7, 0x0100, count, 0, 0, 0) + question * count, client()))
    assert (message.id, message.rcode(), message.question) == (7, dns.rcode.FORMERR, [])


@pytest.mark.parametrize("opcode", [1, 2, 4, 5, 6, 15])
def test_other_opcodes(opcode: int) -> None:
    query = bytearray(make_query("best.hobbit", recurse=True))
    query[2] |= opcode << 3
    message = read(fresh().respond(bytes(query), client()))
    assert (message.rcode(), message.opcode()) == (dns.rcode.NOTIMP, opcode)
    assert message.flags & ~0x780F == dns.flags.QR, "RD is cleared"


@pytest.mark.parametrize("rtype", ["AXFR", "IXFR", "MAILA", "MAILB", "TKEY", "TSIG"])
@pytest.mark.parametrize("transport", [UDP, TCP])
def test_what_is_no_type_of_records_is_refused(rtype: str, transport: int) -> None:
    assert ask(fresh(), "hobbit", rtype, transport).rcode() == dns.rcode.REFUSED


@pytest.mark.parametrize("rclass", [0, 3, 4, 254, 255, 256])
def test_other_classes_are_refused(rclass: int) -> None:
    responder = fresh()
    ask(responder, "best.hobbit")
    query = make_query("best.hobbit")[:-2] + rclass.to_bytes(2, "big")
    response = responder.respond(query, client())
    assert isinstance(response, bytes)
    assert response[3] & 0xF == dns.rcode.REFUSED
    assert response[12:] == query[12:]


def test_letter_case_is_kept() -> None:
    responder = fresh()
    for name in ("best.hobbit", "bEsT.HoBbIt", "BEST.HOBBIT"):
        message = ask(responder, name)
        assert message.question[0].name.to_text() == message.answer[0].name.to_text() == name + "."


def test_a_swapped_table_answers_the_next_query() -> None:
    responder = fresh()
    assert len(ask(responder, "best.hobbit").answer) == 2
    responder.table = AnswerTable(hobbit(pool(names={"other": "best"})))
    assert ask(responder, "best.hobbit").rcode() == dns.rcode.NXDOMAIN
    assert len(ask(responder, "other.hobbit").answer) == 2


# Truncation


@pytest.mark.parametrize(
    ("name", "payload", "cut"),
    [
        ("huge.hobbit", None, True),
        ("huge.hobbit", 65535, True),
        ("big.hobbit", None, True),
        ("big.hobbit", 512, True),
        ("big.hobbit", 0, True),
        ("big.hobbit", 1232, False),
        ("big.hobbit", 65535, False),
    ],
)
def test_what_is_too_long_is_cut_over_udp_and_whole_over_tcp(name: str, payload: int | None, cut: bool) -> None:
    responder = fresh()
    for _ in range(2):
        message = read(responder.respond(make_query(name, "TXT", payload=payload), client()))
        assert bool(message.flags & dns.flags.TC) is cut
        assert bool(message.answer) is not cut
        assert message.flags & dns.flags.AA
        assert message.edns == (-1 if payload is None else 0)
        whole = read(responder.respond(make_query(name, "TXT", payload=payload), client(), TCP))
        assert not whole.flags & dns.flags.TC
        assert len(whole.answer[0]) == (100 if name.startswith("huge") else 5)


@pytest.mark.parametrize("length", range(440, 460))
def test_the_limit_is_exact(length: int) -> None:
    # One TXT record of two strings; header 12, question 17, record 12, strings 2 + length
    half, rest = divmod(length, 2)
    more = f'edge TXT "{"x" * half}" "{"x" * (half + rest)}"\n'
    responder = make_responder(hobbit(pool(), more=more))
    wire = responder.respond(make_query("edge.hobbit", "TXT"), client())
    whole = responder.respond(make_query("edge.hobbit", "TXT"), client(), TCP)
    assert isinstance(wire, bytes)
    assert isinstance(whole, bytes)
    assert len(whole) == 12 + 17 + 12 + 2 + length
    assert bool(read(wire).flags & dns.flags.TC) is (len(whole) > 512)


# Selections by other threads


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("answers", [1, 2])
def test_a_response_names_the_member_that_is_selected_for_it(
    plane: Plane, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of the native part may select the due member while the slow path writes the response that names it."""
    responder = make_responder(hobbit(pool(answer="address", answers=answers)), plane)
    responder.tick(1000.0, 0.0)
    cursor = responder.table.cursors["web", "round_robin"]
    write = ResponseWriter.write_within
    writes: list[tuple[Any, ...]] = []

    def write_while_another_selects(*args: Any) -> bytes | None:
        if not writes:
            cursor.next()
        writes.append(args)
        return write(*args)

    monkeypatch.setattr(ResponseWriter, "write_within", write_while_another_selects)
    query, resolver = make_query("round.robin.hobbit"), client()
    responses = [responder.respond_slowly(query, resolver) for _ in range(2)]
    assert responses[0] == responses[1], "the retransmission gets the member that was counted"
    assert short(read(responses[0]).answer)[0][2] == "127.0.0.17"
    assert cursor.totals() == [1, 1, 0]
    assert responder.truncated == 0
    assert len(writes) == 3

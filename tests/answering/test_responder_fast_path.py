"""Checks that the fast path and the slow path agree, and that any input receives a well-formed response or none."""

from __future__ import annotations

import random
import tracemalloc
from itertools import product
from time import process_time
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rcode
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering.responder import DeferredAnswer, Responder
from lbdns.policies.plan import Plan
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


def fixed(member: int = 1) -> Responder:
    """Return a responder in which every policy selects only this member, so that responses can be compared."""
    responder = fresh()
    for handout in responder.table.cursors.values():
        handout.set_plan(Plan((member,)))
    return responder


def long_way(query: bytes, transport: int = UDP) -> bytes | None:
    """Return the response from a new responder, so that the query takes the slow path."""
    response = fixed().respond(query, client(), transport)
    assert response is None or isinstance(response, bytes)
    return response


NAMES = [
    *(f"{name}.hobbit" for name in ("best", "round.robin", "www", "bilbo", "nowhere", "robin", "x.wild", "x.sub")),
    *("hobbit", "sub.hobbit", "a.old.hobbit", "odd.hobbit", "big.hobbit", "example.org", "."),
]
TYPES = ["A", "AAAA", "CNAME", "ANY", "MX", "HTTPS", "TXT", "NS", "SOA", "DS", "TYPE97", "TYPE65280", "AXFR", "OPT"]
SUBNET = dns.edns.ECSOption("192.0.2.0", 24)
WAYS: list[dict[str, Any]] = [
    {},
    {"recurse": True},
    {"payload": 1232},
    {"payload": 4096, "dnssec_ok": True},
    {"payload": 512, "recurse": True},
    {"payload": 1232, "options": [SUBNET]},
    {"payload": 4096, "dnssec_ok": True, "options": [dns.edns.ECSOption("2001:db8::1", 128)]},
    {"payload": 1231},
    {"payload": 0},
    {"payload": 1232, "options": [dns.edns.GenericOption("COOKIE", b"cookie!!")]},
    {"payload": 1232, "options": [dns.edns.GenericOption("COOKIE", b"cookie!!"), SUBNET]},
    {"payload": 1232, "options": [dns.edns.GenericOption("ECS", b"\0\1\x18\x18\xc0\0\2")]},
    {"payload": 1232, "version": 1},
]


@pytest.mark.parametrize("name", NAMES)
def test_asked_again_it_says_the_same(name: str) -> None:
    for rtype in TYPES:
        warm = fixed()
        for way, transport in product(WAYS, (UDP, TCP)):
            query = make_query(name, rtype, **way)
            first = long_way(query, transport)
            assert first is not None
            for ident in (b"\x12\x34", b"\0\0", b"\xff\xff"):
                asked = ident + query[2:]
                assert warm.respond(asked, client(), transport) == ident + first[2:], (rtype, way, transport)


@pytest.mark.parametrize("name", ["best.hobbit", "BEST.hObBiT", "bilbo.hobbit", "robin.hobbit"])
@pytest.mark.parametrize("way", WAYS[:7])
def test_what_is_usual_takes_the_short_way_from_the_second_time_on(
    name: str, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    responder = fixed()
    query = make_query(name, "A", **way)
    first = responder.respond(query, client())

    def refuse(*_: object) -> bytes | None:
        raise AssertionError("took the long way")

    monkeypatch.setattr(Responder, "respond_slowly", refuse)
    assert responder.respond(query, client()) == first
    assert responder.respond(query, client(), TCP) == first
    with pytest.raises(AssertionError, match="long way"):
        responder.respond(make_query(name, "A", payload=1231), client())


def test_a_client_subnet_makes_no_response_longer_than_the_client_accepts() -> None:
    texts = {length: f't{length} TXT "{"a" * 200}" "{"b" * length}"\n' for length in range(220, 250)}
    farm = hobbit(more="".join(texts.values()))
    warm = make_responder(farm)
    options: list[dns.edns.Option] = [dns.edns.ECSOption("2001:db8::1", 128)]
    sizes = set()
    for length in texts:
        plain = make_query(f"t{length}.hobbit", "TXT", payload=512)
        subnet = make_query(f"t{length}.hobbit", "TXT", payload=512, options=options)
        warm.respond(plain, client())  # precompiles the response without the option
        for _ in range(2):
            response = warm.respond(subnet, client())
            assert response == make_responder(farm).respond(subnet, client())
            assert isinstance(response, bytes)
            sizes.add(len(response))
    assert max(sizes) == 512
    assert read(response).flags & dns.flags.TC, "the longest response is truncated"


GOOD = [make_query(name, rtype, **way) for name in ("best.hobbit", "bilbo.hobbit", "big.hobbit", "nowhere.hobbit")
        for rtype in ("A", "HTTPS", "TXT") for way in WAYS[:8]]  # fmt: skip


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """Generate a valid query, and change, remove or insert a few of its bytes."""
    query = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(query) - 1))
        match draw(st.sampled_from(["change", "flip", "case", "remove", "insert", "cut"])):
            case "change":
                query[at] = draw(st.integers(0, 255))
            case "flip":
                query[at] ^= 1 << draw(st.integers(0, 7))
            case "case":
                query[at] ^= 0x20
            case "remove" if len(query) > 1:
                del query[at]
            case "insert":
                query.insert(at, draw(st.sampled_from([0, 1, 12, 41, 97, 192, 255])))
            case "cut" if at:
                del query[at:]
    return bytes(query)


WARM = fixed()
for _query in GOOD:
    WARM.respond(_query, client())


def check_well_formed(query: bytes, response: bytes | DeferredAnswer | None, transport: int) -> None:
    if response is None:
        assert len(query) < 12 or query[2] & 0x80
        return
    assert isinstance(response, bytes)
    message = read(response)
    assert response[:2] == query[:2]
    assert message.opcode() == (query[2] >> 3) & 0xF
    assert bool(message.flags & dns.flags.RD) <= bool(query[2] & 1)
    assert not message.flags & (dns.flags.RA | dns.flags.AD | dns.flags.CD)
    if transport == UDP:
        limit = 512
        if message.edns >= 0:
            asked = dns.message.from_wire(query, ignore_trailing=True, continue_on_error=True)
            limit = min(max(512, asked.payload if asked.edns >= 0 else 1232), 1232)
        assert len(response) <= limit


@settings(max_examples=400, deadline=None)
@given(mutations(), st.sampled_from([UDP, TCP]))
def test_a_query_with_mistakes_is_answered_alike_from_a_fresh_and_from_a_warm_table(
    query: bytes, transport: int
) -> None:
    response = WARM.respond(query, client(), transport)
    assert response == long_way(query, transport)
    check_well_formed(query, response, transport)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80) | st.builds(lambda head, rest: head + b"\0\1\0\0\0\0\0\0" + rest,
                                          st.binary(min_size=4, max_size=4), st.binary(max_size=60)))  # fmt: skip
def test_any_bytes_get_a_response_or_none(query: bytes) -> None:
    check_well_formed(query, WARM.respond(query, client()), UDP)


def test_thousands_of_queries_with_odd_bytes_do_no_harm() -> None:
    chance = random.Random(20251120)
    for _ in range(4000):
        query = bytearray(chance.choice(GOOD))
        for _ in range(chance.randrange(4)):
            query[chance.randrange(len(query))] = chance.randrange(256)
        transport = chance.choice((UDP, TCP))
        check_well_formed(bytes(query), WARM.respond(bytes(query), client(), transport), transport)


# Lower-casing the question touches its type too

LETTERS = [*range(65, 91), *range(97, 123), 0x4100, 0x6100, 0x4142, 0x0161]


def test_types_that_are_letters_are_not_mixed_up() -> None:
    more = "mixed HTTPS 1 . alpn=h2\nmixed TYPE97 \\# 1 61\nmixed TYPE122 \\# 1 7a\nmixed TYPE16640 \\# 1 41\n"
    expected = {65: '1 . alpn="h2"', 97: "\\# 1 61", 122: "\\# 1 7a", 0x4100: "\\# 1 41"}
    responder = make_responder(hobbit(pool(), more=more))
    for _ in range(2):
        for order in (LETTERS, LETTERS[::-1]):
            for rtype in order:
                message = ask(responder, "mixed.hobbit", f"TYPE{rtype}")
                answer = [(int(rrset.rdtype), rdata.to_text()) for rrset in message.answer for rdata in rrset]
                assert answer == ([(rtype, expected[rtype])] if rtype in expected else [])
                assert bool(message.authority) is (rtype not in expected)


@pytest.mark.parametrize("first", [65, 97])
def test_where_no_zone_has_such_types_they_are_equally_absent(first: int) -> None:
    responder = fresh()
    for rtype in (first, 162 - first, first, 162 - first):
        message = ask(responder, "bilbo.hobbit", f"TYPE{rtype}")
        assert int(message.question[0].rdtype) == rtype
        assert (message.answer, len(message.authority)) == ([], 1)


# Names that look like others

ODD_NAMES = [
    (b"\5a\0bcd", "inside a label"),
    (b"\1\0", "a label of one zero byte"),
    (b"\6\0\0\1\0\1A", "what looks like the end, a type and a class"),
    (b"\4best\6hobbi\0", "a zero byte for the last letter"),
    (b"\x0bbest\6hobbit", "a dot that is a length byte"),
]


@pytest.mark.parametrize("labels", [labels for labels, _ in ODD_NAMES], ids=[what for _, what in ODD_NAMES])
def test_names_with_zero_bytes_are_names_like_any_other(labels: bytes) -> None:
    name = labels + b"\6hobbit\0"
    owner = dns.name.from_wire(name, 0)[0]
    responder = make_responder(hobbit(pool(), more=f"{owner} 60 A 127.9.9.9\n"))
    query = b"\0\1\0\0\0\1\0\0\0\0\0\0" + name + b"\0\1\0\1"
    for _ in range(3):
        message = read(responder.respond(query, client()))
        assert message.rcode() == dns.rcode.NOERROR
        assert short(message.answer) == [(str(owner), "A", "127.9.9.9")]
    assert read(fresh().respond(query, client())).rcode() == dns.rcode.NXDOMAIN


# Bounds


def test_ways_that_nobody_else_asks_in_do_not_fill_the_memory_or_keep_others_from_the_short_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    responder = fresh()
    chance = random.Random(7)
    responder.respond(make_query("best.hobbit"), client())
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(600):
            junk = b"\1x\0\1\0\1\0\0\0\0" + (2000).to_bytes(2, "big") + chance.randbytes(2000)
            responder.respond(with_additional(1, junk), client(), TCP)  # another record than OPT
            responder.respond(
                with_additional(1, b"\0\0\x29\4\xd0\0\0" + number.to_bytes(2, "big") + b"\0\0"),  # Z bits
                client(),
            )
            responder.respond(make_query("best.hobbit", payload=number), client())
            responder.respond(with_additional(0, b"", flags=number & 0x07FF), client())
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000
    responder.respond(make_query("best.hobbit", payload=4096, dnssec_ok=True), client())
    monkeypatch.setattr(Responder, "respond_slowly", lambda *_: None)
    assert responder.respond(make_query("best.hobbit", payload=4096, dnssec_ok=True), client()) is not None


def test_the_longest_messages_cost_bounded_work() -> None:
    responder = fresh()
    header = b"\0\0\0\0\0\1\0\0\0\0\0\1"
    longest = [
        header + b"\4best\6hobbit\0\0\1\0\1" + b"\xc0\x0c" * 30_000,
        header + b"\xc0\x0c" * 32_000,
        header + b"\1a" * 32_000,
        header + b"\x3f" * 65_000,
    ]
    for query in longest:
        began = process_time()
        for _ in range(20):
            check_well_formed(query, responder.respond(query, client(), TCP), TCP)
        assert (process_time() - began) / 20 < 0.02

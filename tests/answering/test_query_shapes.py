"""Compares the table of usual query shapes with queries written by dnspython."""

from __future__ import annotations

from itertools import product

import dns.edns
import dns.flags
import dns.message
import pytest

from lbdns.answering.query_shapes import (
    COOKIE_AT,
    COOKIE_QUERY_SHAPES,
    FIRST_COOKIE_KIND,
    KINDS,
    OPTIONS_LENGTH_AT,
    QUERY_SHAPES,
    USUAL_PAYLOADS,
)
from lbdns.answering.responder import response_kind
from tests.answering.test_edns_options import MALFORMED_SUBNETS, SOUND_SUBNETS

QUESTION_LENGTH = 17


def around(message: dns.message.Message) -> bytes:
    wire = message.to_wire()
    return wire[2:12] + wire[12 + QUESTION_LENGTH :]


def kind_of(around: bytes) -> int | None:
    return response_kind(around[:10], around[10:])


def made(flags: int, payload: int | None, dnssec_ok: bool) -> dns.message.Message:
    message = dns.message.make_query("best.hobbit", "A", flags=flags)
    if payload is not None:
        message.use_edns(0, ednsflags=dns.flags.DO if dnssec_ok else 0, payload=payload)
    return message


def test_every_combination_is_known_and_nothing_else() -> None:
    flags = [sum(bits) for bits in product((0, dns.flags.RD), (0, dns.flags.AD), (0, dns.flags.CD))]
    ways = {around(made(flag, None, False)) for flag in flags}
    ways |= {around(made(*way)) for way in product(flags, USUAL_PAYLOADS, (False, True))}
    assert set(QUERY_SHAPES) == ways


@pytest.mark.parametrize(
    ("payload", "dnssec_ok", "kinds"), [(None, False, {0, 1}), (1232, False, {2, 3}), (1232, True, {4, 5})]
)
def test_kinds_tell_apart_what_responses_depend_on(payload: int | None, dnssec_ok: bool, kinds: set[int]) -> None:
    asked = {
        recurse: {
            QUERY_SHAPES[around(made(recurse | other, payload, dnssec_ok))] for other in (0, dns.flags.AD, dns.flags.CD)
        }
        for recurse in (0, dns.flags.RD)
    }
    assert all(len(found) == 1 for found in asked.values())
    assert set().union(*asked.values()) == kinds
    assert max(kinds) < KINDS


@pytest.mark.parametrize("name", ["DO", "payload"])
def test_what_is_unusual_is_not_there(name: str) -> None:
    usual = around(made(0, 1232, False))
    assert usual in QUERY_SHAPES
    changed = bytearray(usual)
    changed[10 + {"DO": 8, "payload": 4}[name]] ^= 1  # a bit of Z beside DO; a size that nobody announces
    assert bytes(changed) not in QUERY_SHAPES


# With a cookie and no other option


def with_cookie(flags: int, payload: int, dnssec_ok: bool, cookie: bytes) -> bytes:
    message = dns.message.make_query("best.hobbit", "A", flags=flags)
    options: list[dns.edns.Option] = [dns.edns.GenericOption(dns.edns.OptionType.COOKIE, cookie)]
    message.use_edns(0, ednsflags=dns.flags.DO if dnssec_ok else 0, payload=payload, options=options)
    return around(message)


@pytest.mark.parametrize("length", [8, 24])
def test_every_combination_with_a_cookie_is_known_whatever_the_cookie(length: int) -> None:
    bits = [sum(bits) for bits in product((0, dns.flags.RD), (0, dns.flags.AD), (0, dns.flags.CD))]
    for flags, payload, dnssec_ok in product(bits, USUAL_PAYLOADS, (False, True)):
        kinds = {kind_of(with_cookie(flags, payload, dnssec_ok, byte * length)) for byte in (b"\0", b"x", b"\xff")}
        (kind,) = kinds
        assert kind is not None
        assert kind < KINDS
        assert kind >= FIRST_COOKIE_KIND
        assert kind % 2 == bool(flags & dns.flags.RD)
    assert len(COOKIE_QUERY_SHAPES) == 2 * 8 * len(USUAL_PAYLOADS) * 2


def test_kinds_with_a_cookie_are_others_than_those_without() -> None:
    assert not any(kind >= FIRST_COOKIE_KIND for kind in QUERY_SHAPES.values())
    assert not set(QUERY_SHAPES.values()) & set(COOKIE_QUERY_SHAPES.values())
    assert set(QUERY_SHAPES.values()) | set(COOKIE_QUERY_SHAPES.values()) == set(range(KINDS))


@pytest.mark.parametrize("length", [0, 7, 9, 16, 23, 25, 40])
def test_cookies_of_other_lengths_are_unusual(length: int) -> None:
    assert kind_of(with_cookie(0, 1232, False, bytes(length))) is None


@pytest.mark.parametrize("claimed", [8, 24])
@pytest.mark.parametrize("there", [0, 7, 8, 9, 23, 24, 25])
def test_a_cookie_has_to_be_as_long_as_its_option_says(claimed: int, there: int) -> None:
    whole = with_cookie(0, 1232, False, bytes(claimed))
    assert (kind_of(whole[: 10 + COOKIE_AT] + bytes(there)) is not None) is (claimed == there)


@pytest.mark.parametrize("what", ["EXPIRE", "two options"])
def test_other_options_are_unusual(what: str) -> None:
    message = dns.message.make_query("best.hobbit", "A", flags=0)
    code = dns.edns.OptionType.COOKIE if what == "two options" else dns.edns.OptionType.make(9)
    options: list[dns.edns.Option] = [dns.edns.GenericOption(code, bytes(8))]
    options += [dns.edns.GenericOption(dns.edns.OptionType.NSID, bytes(12))]
    message.use_edns(0, payload=1232, options=options[: 1 if what == "EXPIRE" else 2])
    assert kind_of(around(message)) is None


# With a client subnet and no other option


def with_subnet(flags: int, payload: int, dnssec_ok: bool, data: bytes) -> bytes:
    message = dns.message.make_query("best.hobbit", "A", flags=flags)
    option = dns.edns.GenericOption(dns.edns.OptionType.ECS, data)
    message.use_edns(0, ednsflags=dns.flags.DO if dnssec_ok else 0, payload=payload, options=[option])
    return around(message)


def subnet(text: str) -> bytes:
    address, length = text.split("/")
    return dns.edns.ECSOption(address, int(length)).to_wire() or b""


@pytest.mark.parametrize("data", [*map(subnet, SOUND_SUBNETS), bytes(4)])
def test_a_query_with_a_client_subnet_has_the_kind_of_the_query_without_it(data: bytes) -> None:
    bits = [sum(bits) for bits in product((0, dns.flags.RD), (0, dns.flags.AD), (0, dns.flags.CD))]
    for flags, payload, dnssec_ok in product(bits, USUAL_PAYLOADS, (False, True)):
        plain = kind_of(around(made(flags, payload, dnssec_ok)))
        assert plain is not None
        assert kind_of(with_subnet(flags, payload, dnssec_ok, data)) == plain


@pytest.mark.parametrize("data", MALFORMED_SUBNETS.values(), ids=MALFORMED_SUBNETS)
def test_a_malformed_client_subnet_is_unusual(data: bytes) -> None:
    assert kind_of(with_subnet(0, 1232, False, data)) is None


@pytest.mark.parametrize("changed", [OPTIONS_LENGTH_AT, OPTIONS_LENGTH_AT + 1, COOKIE_AT - 2, COOKIE_AT - 1])
@pytest.mark.parametrize("octet", [0, 6, 8, 10, 12, 255])
def test_the_lengths_of_a_client_subnet_have_to_agree(changed: int, octet: int) -> None:
    sound = with_subnet(0, 1232, False, subnet("192.0.2.0/24"))
    other = bytearray(sound)
    other[10 + changed] = octet
    assert (kind_of(bytes(other)) is None) is (bytes(other) != sound)


@pytest.mark.parametrize("ending", [b"\0", bytes(4), b"\0\x03\0\0"])
def test_a_client_subnet_has_to_end_the_query(ending: bytes) -> None:
    assert kind_of(with_subnet(0, 1232, False, subnet("192.0.2.0/24")) + ending) is None

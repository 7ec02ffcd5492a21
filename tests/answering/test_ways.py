"""The usual ways of asking, against the queries that dnspython makes."""

from __future__ import annotations

from itertools import product

import dns.flags
import dns.message
import pytest

from lbdns.answering.ways import KINDS, USUAL_PAYLOADS, WAYS

QUESTION_LENGTH = 17


def around(message: dns.message.Message) -> bytes:
    wire = message.to_wire()
    return wire[2:12] + wire[12 + QUESTION_LENGTH :]


def made(flags: int, payload: int | None, dnssec_ok: bool) -> dns.message.Message:
    message = dns.message.make_query("best.hobbit", "A", flags=flags)
    if payload is not None:
        message.use_edns(0, ednsflags=dns.flags.DO if dnssec_ok else 0, payload=payload)
    return message


def test_every_combination_is_known_and_nothing_else() -> None:
    flags = [sum(bits) for bits in product((0, dns.flags.RD), (0, dns.flags.AD), (0, dns.flags.CD))]
    ways = {around(made(flag, None, False)) for flag in flags}
    ways |= {around(made(*way)) for way in product(flags, USUAL_PAYLOADS, (False, True))}
    assert set(WAYS) == ways


@pytest.mark.parametrize(
    ("payload", "dnssec_ok", "kinds"), [(None, False, {0, 1}), (1232, False, {2, 3}), (1232, True, {4, 5})]
)
def test_kinds_tell_apart_what_responses_depend_on(payload: int | None, dnssec_ok: bool, kinds: set[int]) -> None:
    asked = {
        recurse: {WAYS[around(made(recurse | other, payload, dnssec_ok))] for other in (0, dns.flags.AD, dns.flags.CD)}
        for recurse in (0, dns.flags.RD)
    }
    assert all(len(found) == 1 for found in asked.values())
    assert set().union(*asked.values()) == kinds
    assert max(kinds) < KINDS


@pytest.mark.parametrize("name", ["DO", "payload"])
def test_what_is_unusual_is_not_there(name: str) -> None:
    usual = around(made(0, 1232, False))
    assert usual in WAYS
    changed = bytearray(usual)
    changed[10 + {"DO": 8, "payload": 4}[name]] ^= 1  # a bit of Z beside DO; a size that nobody announces
    assert bytes(changed) not in WAYS

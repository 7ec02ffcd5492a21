"""Tests of reading DNS answers: aliases, the lowest TTL, and malformed messages, which must not cause a hang."""

from __future__ import annotations

import contextlib
import random

import dns.message
import dns.rrset
import pytest

from lbdns_tools.load.stub_dns_message import AAAA, A, AnswerError, is_answer, query, question, read_answer


def wire(*records: str, name: str = "best.hobbit", kind: str = "A", rcode: int = 0) -> bytes:
    message = dns.message.make_response(dns.message.make_query(name, kind, id=7))
    message.set_rcode(dns.rcode.Rcode(rcode))
    for record in records:
        owner, ttl, of, data = record.split()
        message.answer.append(dns.rrset.from_text(owner, int(ttl), "IN", of, data))
    return message.to_wire()


def test_alias_is_followed_in_any_order_and_letter_case() -> None:
    asked = question("Best.Hobbit", A)
    for records in (
        ("best.hobbit. 0 CNAME frodo.hobbit.", "FRODO.hobbit. 60 A 127.0.0.17"),
        ("frodo.hobbit. 60 A 127.0.0.17", "best.hobbit. 0 CNAME frodo.hobbit."),
    ):
        message = wire(*records)
        assert is_answer(message, 7, asked)
        answer = read_answer(message, asked)
        assert (answer.addresses, answer.ttl) == (("127.0.0.17",), 0)


def test_several_addresses_and_their_least_ttl() -> None:
    answer = read_answer(wire("h. 60 A 10.0.0.1", "h. 60 A 10.0.0.2", name="h"), question("h", A))
    assert (sorted(answer.addresses), answer.ttl) == (["10.0.0.1", "10.0.0.2"], 60)
    assert read_answer(wire("h. 5 AAAA ::1", name="h", kind="AAAA"), question("h", AAAA)).addresses == ("::1",)


def test_no_address() -> None:
    assert read_answer(wire(), question("best.hobbit", A)).addresses == ()
    assert read_answer(wire("other. 5 A 10.0.0.1"), question("best.hobbit", A)).addresses == ()


@pytest.mark.parametrize(("rcode", "name"), [(3, "NXDOMAIN"), (2, "SERVFAIL"), (5, "REFUSED"), (9, "response code 9")])
def test_response_codes(rcode: int, name: str) -> None:
    with pytest.raises(AnswerError, match=name):
        read_answer(wire(rcode=rcode), question("best.hobbit", A))


def test_loop_of_aliases() -> None:
    with pytest.raises(AnswerError, match="loop"):
        read_answer(wire("a. 0 CNAME b.", "b. 0 CNAME a.", name="a"), question("a", A))


def test_what_is_no_answer_to_the_question() -> None:
    message, asked = wire(), question("best.hobbit", A)
    assert is_answer(message, 7, asked)
    assert not is_answer(message, 8, asked)
    assert not is_answer(message, 7, question("best.hobbit", AAAA))
    assert not is_answer(query(7, asked), 7, asked)
    assert not is_answer(b"", 7, asked)


def test_broken_messages_are_errors_never_anything_else() -> None:
    chance = random.Random(1)
    asked = question("best.hobbit", A)
    good = wire("best.hobbit. 0 CNAME frodo.hobbit.", "frodo.hobbit. 60 A 127.0.0.17")
    read = 0
    for _ in range(3000):
        message = bytearray(good[: chance.randrange(12, len(good) + 1)])
        for _ in range(chance.randrange(4)):
            message[chance.randrange(12, len(message)) if len(message) > 12 else 0] = chance.randrange(256)
        with contextlib.suppress(AnswerError):
            read += bool(read_answer(bytes(message), asked).addresses)
    assert read > 0


def test_names_that_are_none() -> None:
    for name in ("ü.example", "a" * 64 + ".example", ".".join(["abcdefgh"] * 40)):
        with pytest.raises(ValueError, match="domain name"):
            question(name, A)

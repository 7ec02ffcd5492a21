"""Tests of joining the head and tail of a response with its question."""

from __future__ import annotations

import struct

import pytest

from lbdns.answering.answer_table import AnswerEntry
from lbdns.answering.edns import Edns
from lbdns.answering.member_selection import PlanCursor
from lbdns.answering.message_writer import ResponseBody, truncated, write_variant

BODY = ResponseBody(0x0403, (2, 1, 1), b"records")  # AA, NXDOMAIN


def head(flags: int, edns: Edns | None = None, rcode: int | None = None, body: ResponseBody = BODY) -> tuple[int, ...]:
    return struct.unpack("!HHHHH", write_variant(body, flags, edns, rcode)[0])


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (0x0000, 0x8403),
        (0x0100, 0x8503),  # RD is copied
        (0x0130, 0x8503),  # AD and CD are not (RFC 4035 section 3.1.6)
        (0x06FF, 0x8403),  # nor AA, TC, RA, Z and whatever stands in the rcode
        (0x2900, 0xAC03),  # another opcode is copied, its RD is not
    ],
)
def test_flags(asked: int, answered: int) -> None:
    assert head(asked) == (answered, 1, 2, 1, 1)


def test_opt_is_one_more_additional_record() -> None:
    edns = Edns(512, 0, True)
    assert head(0, edns) == (0x8403, 1, 2, 1, 2)
    assert write_variant(BODY, 0, edns)[1] == b"records" + b"\0\0\x29\x04\xd0\0\0\x80\0\0\0"


def test_an_rcode_overrules_the_bodys_and_its_upper_bits_go_into_opt() -> None:
    edns = Edns(512, 0, False)
    assert head(0, edns, 16)[0] == 0x8400
    assert write_variant(BODY, 0, edns, 16)[1].endswith(b"\0\0\x29\x04\xd0\x01\0\0\0\0\0")


def test_truncated_keeps_flags_and_no_record() -> None:
    cut = truncated(BODY)
    assert cut == ResponseBody(0x0603, (0, 0, 0), b"")
    assert head(0x0100, body=cut) == (0x8703, 1, 0, 0, 0)


def test_what_is_no_pools_has_one_body() -> None:
    entry = AnswerEntry(b"", "hobbit", 1, lambda _: BODY, 5, None)
    assert entry.bodies == [BODY]
    assert entry.rcode == 3


def test_bodies_are_written_when_they_are_wanted_and_once() -> None:
    made: list[int] = []

    def make(member: int) -> ResponseBody:
        made.append(member)
        return ResponseBody(0x0400 | member, (0, 0, 0), b"")

    entry = AnswerEntry(b"", "hobbit", 1, make, 3, PlanCursor(3))
    assert entry.body(2).flags == 0x0402
    assert entry.body(2).flags == 0x0402
    assert made == [2]
    assert [body.flags for body in entry.bodies] == [0x0400, 0x0401, 0x0402]
    assert sorted(made) == [0, 1, 2]

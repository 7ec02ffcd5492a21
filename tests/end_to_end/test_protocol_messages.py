"""Tests of invalid queries over UDP and TCP to a running server, which responds with the right error or not at all."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import pytest

from lbdns_shared.endpoint import Endpoint
from tests.end_to_end.protocol import PATIENCE, PLANES, exchange, serving

QUESTION = b"\x05bilbo\x06hobbit\0\0\1\0\1"
OPT = b"\0\0\x29\x04\xd0\0\0\0\0\0\0"
GOOD = b"ok" + struct.pack("!HHHHH", 0, 1, 0, 0, 0) + QUESTION
LONGEST = (b"\x3f" + b"a" * 63) * 3


@pytest.fixture(scope="module", params=PLANES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with serving(tmp_path_factory.mktemp("messages"), plane=request.param) as (served, endpoint):
        yield endpoint
        assert "Traceback" not in served.errors
        assert "ERROR" not in served.errors


def message(
    after: bytes = QUESTION, counts: tuple[int, int, int, int] = (1, 0, 0, 0), flags: int = 0, ident: bytes = b"id"
) -> bytes:
    return ident + struct.pack("!HHHHH", flags, *counts) + after


def over_tcp(at: Endpoint, *messages: bytes) -> list[bytes]:
    """Send the messages in one write, and return all responses until the server closes the connection."""
    with socket.create_connection((at.host, at.port), PATIENCE) as sock:
        sock.sendall(b"".join(len(wire).to_bytes(2, "big") + wire for wire in messages))
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as stream:
            data = stream.read()
    found = []
    while data:
        length = int.from_bytes(data[:2], "big")
        found.append(data[2 : 2 + length])
        assert len(found[-1]) == length
        data = data[2 + length :]
    return found


UNANSWERED = {
    "nothing": b"",
    "a byte": b"i",
    "11 bytes": message()[:11],
    "a response": message(flags=0x8000),
    "a response that is malformed": message(b"", flags=0x8183),
    "a response of another opcode": message(flags=0xA000),
}


@pytest.mark.parametrize("wire", UNANSWERED.values(), ids=UNANSWERED)
def test_no_answer(server: Endpoint, wire: bytes) -> None:
    # The first thing that is heard is the answer to what was sent next
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE)
        sock.connect((server.host, server.port))
        for sent in (wire, GOOD):
            sock.send(sent)
        assert sock.recv(512)[:2] == b"ok"
    assert [response[:2] for response in over_tcp(server, wire, GOOD)] == [b"ok"]


FORMERR = {
    "no question": message(b"", (0, 0, 0, 0)),
    "no question, but EDNS": message(OPT, (0, 0, 0, 1)),
    "two questions (RFC 9619)": message(QUESTION * 2, (2, 0, 0, 0)),
    "65535 questions": message(QUESTION, (65535, 0, 0, 0)),
    "a question that is missing": message(b""),
    "an answer in a query": message(QUESTION + b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\1\2\3\4", (1, 1, 0, 0)),
    "an authority in a query": message(QUESTION + b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\1\2\3\4", (1, 0, 1, 0)),
    "a name without end": message(b"\x05bilbo"),
    "half a type": message(QUESTION[:-3]),
    "a pointer in the question": message(b"\xc0\x0c\0\1\0\1"),
    "a pointer behind a label": message(b"\x05bilbo\xc0\x0c\0\1\0\1"),
    "a label of type 01": message(b"\x41" + b"a" * 65 + b"\0\0\1\0\1"),
    "a label of type 10": message(b"\x80a\0\0\1\0\1"),
    "a name of 256 octets": message(LONGEST + b"\x3e" + b"a" * 62 + b"\0\0\1\0\1"),
    "bytes behind the question": message(QUESTION + b"\0\0"),
    "bytes behind the OPT": message(QUESTION + OPT + b"\0", (1, 0, 0, 1)),
    "an OPT that is not counted": message(QUESTION + OPT),
    "an OPT that is missing": message(QUESTION, (1, 0, 0, 1)),
    "an OPT that is cut": message(QUESTION + OPT[:-1], (1, 0, 0, 1)),
    "two OPTs": message(QUESTION + OPT * 2, (1, 0, 0, 2)),
    "an OPT with a name": message(QUESTION + b"\x01a" + OPT, (1, 0, 0, 1)),
    "an option longer than its OPT": message(QUESTION + OPT[:-2] + b"\0\4\0\x0a\0\x09", (1, 0, 0, 1)),
    "half an option": message(QUESTION + OPT[:-2] + b"\0\3\0\x0a\0", (1, 0, 0, 1)),
    "an OPT as the question": message(b"\0\0\x29\0\1"),
}


@pytest.mark.parametrize("wire", FORMERR.values(), ids=FORMERR)
def test_format_errors(server: Endpoint, wire: bytes) -> None:
    for recursion in (0, 1):
        asked = wire[:2] + bytes((wire[2] | recursion,)) + wire[3:]
        for response in (exchange(server, asked), *over_tcp(server, asked, GOOD)[:1]):
            read = dns.message.from_wire(response)
            assert response[:2] == b"id"
            assert (read.rcode(), read.opcode()) == (dns.rcode.FORMERR, dns.opcode.QUERY)
            assert read.flags & ~0xF == dns.flags.QR | (dns.flags.RD if recursion else 0)
            assert read.answer == read.authority == read.additional == []
            assert len(response) <= max(12, len(asked))


@pytest.mark.parametrize("rclass", [0, 2, 4, 254, 255, 256, 65535])
def test_other_classes_are_refused(server: Endpoint, rclass: int) -> None:
    wire = message(QUESTION[:-2] + rclass.to_bytes(2, "big"))
    for response in (exchange(server, wire), *over_tcp(server, wire)):
        assert response[3] & 0xF == dns.rcode.REFUSED
        assert response[12:] == wire[12:], "the question is echoed"


def test_the_longest_name(server: Endpoint) -> None:
    wire = message(LONGEST + b"\x36" + b"a" * 54 + b"\x06hobbit\0\0\1\0\1")
    assert len(wire) == 12 + 255 + 4
    assert dns.message.from_wire(exchange(server, wire)).rcode() == dns.rcode.NXDOMAIN


HEADER_BITS = {"AD": 0x0020, "CD": 0x0010, "Z": 0x0040, "RA": 0x0080, "AA": 0x0400, "TC": 0x0200, "an RCODE": 0x000F}


@pytest.mark.parametrize("bits", [*HEADER_BITS.values(), sum(HEADER_BITS.values())], ids=[*HEADER_BITS, "all"])
@pytest.mark.parametrize("recurse", [0, 0x0100])
def test_bits_of_the_header_are_not_copied_but_for_rd(server: Endpoint, bits: int, recurse: int) -> None:
    for _ in range(2):
        response = exchange(server, message(flags=bits | recurse))
        assert int.from_bytes(response[2:4], "big") == 0x8400 | recurse
        assert len(dns.message.from_wire(response).answer) == 1


COOKIES = {length: b"\0\x0a" + length.to_bytes(2, "big") + bytes(range(length)) for length in (8, 24)}


def with_option(option: bytes) -> bytes:
    return message(QUESTION + OPT[:-2] + len(option).to_bytes(2, "big") + option, (1, 0, 0, 1))


@pytest.mark.parametrize("claimed", COOKIES)
@pytest.mark.parametrize("there", [0, 7, 8, 9, 23, 24, 25])
def test_a_cookie_has_to_be_as_long_as_its_option_says(server: Endpoint, claimed: int, there: int) -> None:
    sound = with_option(COOKIES[claimed])
    for wire in (sound, sound, sound[: len(sound) - claimed] + bytes(there)):  # twice: for what is compiled by then
        response = dns.message.from_wire(exchange(server, wire))
    assert response.rcode() == (dns.rcode.NOERROR if claimed == there else dns.rcode.FORMERR)


def test_half_of_it_later(server: Endpoint) -> None:
    """Sends a message in many segments, then half-closes the connection. The TCP server's tests cover other cases."""
    with socket.create_connection((server.host, server.port), PATIENCE) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in len(GOOD).to_bytes(2, "big") + GOOD:
            sock.send(bytes((byte,)))
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as stream:
            data = stream.read()
    assert dns.message.from_wire(data[2:]).rcode() == dns.rcode.NOERROR

"""Tests of ICMP echo messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared import icmp_echo

U16 = st.integers(0, 0xFFFF)


def test_the_checksum_of_the_example_in_rfc_1071() -> None:
    assert icmp_echo.checksum(bytes.fromhex("0001f203f4f5f6f7")) == ~0xDDF2 & 0xFFFF


@given(U16, U16, st.binary(max_size=64))
def test_a_request_sums_up_to_nothing(identifier: int, sequence: int, payload: bytes) -> None:
    request = icmp_echo.echo_request(icmp_echo.ECHO_REQUEST_4, identifier, sequence, payload)
    assert len(request) == 8 + len(payload)
    assert icmp_echo.checksum(request) == 0 or len(payload) % 2  # an odd byte is padded at the end, not before


def reply_to(request: bytes, kind: int = icmp_echo.ECHO_REPLY_4) -> bytes:
    return bytes((kind, 0)) + b"\x12\x34" + request[4:]


REQUEST = icmp_echo.echo_request(icmp_echo.ECHO_REQUEST_4, 700, 3, b"0123456789abcdef")
REQUEST6 = icmp_echo.echo_request(icmp_echo.ECHO_REQUEST_6, 700, 3, b"0123456789abcdef")
OTHER_ID = reply_to(icmp_echo.echo_request(icmp_echo.ECHO_REQUEST_4, 701, 3, b"0123456789abcdef"))


@pytest.mark.parametrize(
    ("message", "sent", "any_identifier", "own"),
    [
        (reply_to(REQUEST), REQUEST, False, True),
        (reply_to(REQUEST6, icmp_echo.ECHO_REPLY_6), REQUEST6, False, True),
        (reply_to(REQUEST), REQUEST6, False, False),
        (OTHER_ID, REQUEST, False, False),
        (OTHER_ID, REQUEST, True, True),  # a ping socket's kernel chose the identifier
        (REQUEST, REQUEST, True, False),  # one's own request, as seen on the loopback
        (reply_to(icmp_echo.echo_request(8, 700, 4, b"0123456789abcdef")), REQUEST, False, False),  # an older sequence
        (reply_to(icmp_echo.echo_request(8, 700, 3, b"somebody else's!")), REQUEST, False, False),
        (reply_to(REQUEST) + b"x", REQUEST, False, False),
        (b"\x03\x01" + reply_to(REQUEST)[2:], REQUEST, False, False),  # unreachable
        (b"", REQUEST, True, False),
    ],
)
def test_only_the_own_echo_counts(message: bytes, sent: bytes, any_identifier: bool, own: bool) -> None:
    assert icmp_echo.is_echo_reply(message, sent, any_identifier) == own


@pytest.mark.parametrize(
    ("packet", "message"),
    [
        (b"\x45" + bytes(19) + b"icmp", b"icmp"),
        (b"\x46" + bytes(23) + b"icmp", b"icmp"),  # with an option
        (b"\x60" + bytes(39), b""),
        (b"", b""),
        (b"\x4f\x00", b""),
    ],
)
def test_without_ip_header(packet: bytes, message: bytes) -> None:
    assert icmp_echo.without_ip_header(packet) == message

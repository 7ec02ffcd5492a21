"""The checks that every DNS response must pass. The checks use dnspython, which shares no code with the server."""

from __future__ import annotations

import re
import struct
from typing import Final
from unittest import mock

import dns.edns
import dns.flags
import dns.message
import dns.rcode

LEAST: Final = 512  # bytes: every client accepts this over UDP
MAX_TCP: Final = 65_535
#: A client subnet option without an address, which is valid with any family (RFC 7871 section 7.1.2)
_NO_SUBNET: Final = re.compile(rb"\0\x08\0\x04..\0\0", re.DOTALL)


def check_response(query: bytes, response: bytes, tcp: bool, payload: int) -> dns.message.Message:
    """Check and return a response. Raises AssertionError or DNSException.

    ``payload`` is the server's UDP size limit.
    """
    message = _read(response)
    assert response[:2] == query[:2], "another id"
    assert message.flags & dns.flags.QR
    assert message.opcode() == query[2] >> 3 & 0xF, "another opcode"
    assert not message.flags & (dns.flags.AD | dns.flags.CD), "the response sets the AD or CD bit"
    assert bool(message.flags & dns.flags.RD) <= bool(query[2] & 1), "the response sets RD, but the query does not"
    if message.question:
        end = 12 + len(message.question[0].name.to_wire() or b"") + 4
        assert response[12:end] == query[12:end], "another question"
    else:
        assert not message.answer
        assert not message.authority
    if message.flags & dns.flags.TC:
        assert not [*message.answer, *message.authority], "a truncated response contains records"
    assert len(response) <= (MAX_TCP if tcp else allowed_over_udp(query, message, payload)), "too long"
    assert message.edns < 0 or query[10:12] != b"\0\0", "the response has an OPT record, but the query has none"
    check_subnet(query, message)
    return message


def check_subnet(query: bytes, response: dns.message.Message) -> None:
    """Check that a client subnet in the response is one that the query contains. Raises AssertionError.

    The scope is 0 in every query, and in our responses, so the option is the same in both (RFC 7871 section 7.2.1).
    """
    for option in response.options:
        if option.otype == dns.edns.OptionType.ECS:
            data = option.to_wire() or b""
            assert data[3:4] == b"\0", "a client subnet with a scope other than 0"
            assert struct.pack("!HH", option.otype, len(data)) + data in query, "another client subnet"


def allowed_over_udp(query: bytes, response: dns.message.Message, payload: int) -> int:
    """Return the maximum UDP response size: the query's payload size, but at least 512 and at most ``payload``."""
    if response.edns < 0 or response.rcode() == dns.rcode.FORMERR:
        return LEAST
    message = dns.message.from_wire(query, ignore_trailing=True, continue_on_error=True)
    return min(max(LEAST, message.payload if message.edns >= 0 else LEAST), payload)


def _read(response: bytes) -> dns.message.Message:
    if not _NO_SUBNET.search(response):
        return dns.message.from_wire(response, keyring=False)
    # dnspython knows only IPv4 and IPv6 in this option, so make it read options as plain bytes
    with mock.patch("dns.edns.get_option_class", return_value=dns.edns.GenericOption):
        return dns.message.from_wire(response, keyring=False)

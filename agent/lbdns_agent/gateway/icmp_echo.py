"""Builds and recognises ICMP echo messages, IPv4 and IPv6. Pure."""

from __future__ import annotations

import struct
from typing import Final

# RFC 792, RFC 4443
ECHO_REQUEST_4, ECHO_REPLY_4 = 8, 0
ECHO_REQUEST_6, ECHO_REPLY_6 = 128, 129
_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence
IDENTIFIER: Final = slice(4, 6)


def request(kind: int, identifier: int, sequence: int, payload: bytes) -> bytes:
    """Return an echo request of type ``kind``. The checksum is that of IPv4; for IPv6 the kernel adds its own."""
    unsummed = _HEADER.pack(kind, 0, 0, identifier, sequence) + payload
    return _HEADER.pack(kind, 0, checksum(unsummed), identifier, sequence) + payload


def checksum(message: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    padded = message + bytes(len(message) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def without_ip_header(packet: bytes) -> bytes:
    """Return the ICMP message of an IPv4 packet from a raw socket (raw(7)); empty if it is not an IPv4 packet."""
    return packet[(packet[0] & 0x0F) * 4 :] if packet and packet[0] >> 4 == 4 else b""


def is_reply(message: bytes, sent: bytes, any_identifier: bool) -> bool:
    """Return whether ``message`` is the reply to the request ``sent``: type, sequence and payload must match.

    The identifier must match too, unless the kernel chose it (a ping socket): then pass ``any_identifier``.
    """
    if len(message) != len(sent) or len(message) < _HEADER.size:
        return False
    reply = ECHO_REPLY_4 if sent[0] == ECHO_REQUEST_4 else ECHO_REPLY_6
    same_identifier = any_identifier or message[IDENTIFIER] == sent[IDENTIFIER]
    return message[0] == reply and message[1] == 0 and same_identifier and message[6:] == sent[6:]

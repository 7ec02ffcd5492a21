"""ICMP echo messages, version 4 and 6: made, and recognised. Pure."""

from __future__ import annotations

import struct
from typing import Final

# RFC 792, RFC 4443
ECHO_REQUEST_4, ECHO_REPLY_4 = 8, 0
ECHO_REQUEST_6, ECHO_REPLY_6 = 128, 129
_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence
IDENTIFIER: Final = slice(4, 6)


def request(kind: int, identifier: int, sequence: int, payload: bytes) -> bytes:
    """An echo request of ``kind``. Its checksum is right for version 4; for version 6 the kernel adds it."""
    unsummed = _HEADER.pack(kind, 0, 0, identifier, sequence) + payload
    return _HEADER.pack(kind, 0, checksum(unsummed), identifier, sequence) + payload


def checksum(message: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    padded = message + bytes(len(message) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def without_ip_header(packet: bytes) -> bytes:
    """The message in an IPv4 packet, as a raw socket delivers it (raw(7)); empty when there is none."""
    return packet[(packet[0] & 0x0F) * 4 :] if packet and packet[0] >> 4 == 4 else b""


def is_reply(message: bytes, sent: bytes, any_identifier: bool) -> bool:
    """Whether ``message`` answers the request ``sent``: its kind, sequence and payload, and its identifier
    unless the kernel chose that (a ping socket).
    """
    if len(message) != len(sent) or len(message) < _HEADER.size:
        return False
    reply = ECHO_REPLY_4 if sent[0] == ECHO_REQUEST_4 else ECHO_REPLY_6
    same_identifier = any_identifier or message[IDENTIFIER] == sent[IDENTIFIER]
    return message[0] == reply and message[1] == 0 and same_identifier and message[6:] == sent[6:]

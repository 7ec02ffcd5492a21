"""ICMP echo for IPv4 and IPv6: opens sockets for echo requests, builds the requests, and recognises the replies."""

from __future__ import annotations

import socket
import struct
from typing import Final

SOL_RAW: Final = 255  # linux/socket.h
ICMP_FILTER: Final = 1  # linux/icmp.h
ICMPV6_FILTER: Final = 1  # linux/icmpv6.h
# RFC 792, RFC 4443
ECHO_REQUEST_4, ECHO_REPLY_4 = 8, 0
ECHO_REQUEST_6, ECHO_REPLY_6 = 128, 129
_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence
IDENTIFIER: Final = slice(4, 6)
HOW_TO_ALLOW: Final = (
    "ICMP is not permitted; allow it with 'sysctl net.ipv4.ping_group_range=\"0 2147483647\"' "
    "or the capability CAP_NET_RAW"
)


def open_echo_socket(family: socket.AddressFamily) -> tuple[socket.socket, bool]:
    """Return two values: a non-blocking socket for echo requests, and whether it is a raw socket.

    Opens a ping socket if ping sockets are permitted, otherwise a raw socket that receives only echo replies. Raises
    PermissionError if neither kind of socket is permitted (see ``HOW_TO_ALLOW``), or OSError for any other failure.
    """
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    is_raw = False
    try:
        opened = socket.socket(family, socket.SOCK_DGRAM, protocol)
    except PermissionError:
        opened, is_raw = socket.socket(family, socket.SOCK_RAW, protocol), True
    try:
        if is_raw:
            _only_replies(opened, family)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened, is_raw


def echo_request(kind: int, identifier: int, sequence: int, payload: bytes) -> bytes:
    """Return an echo request of type ``kind``. The checksum is valid for IPv4; for IPv6, the kernel replaces it."""
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
    """Return the ICMP message in a packet from a raw socket (raw(7)), or b"" if the packet is not IPv4."""
    return packet[(packet[0] & 0x0F) * 4 :] if packet and packet[0] >> 4 == 4 else b""


def is_echo_reply(message: bytes, sent: bytes, any_identifier: bool) -> bool:
    """Return whether ``message`` is an echo reply with the same sequence number and payload as the request ``sent``.

    Unless ``any_identifier`` is true, the identifiers must also match. For ping sockets, ``any_identifier`` must be
    true, because the kernel chooses the identifier.
    """
    if len(message) != len(sent) or len(message) < _HEADER.size:
        return False
    reply = ECHO_REPLY_4 if sent[0] == ECHO_REQUEST_4 else ECHO_REPLY_6
    same_identifier = any_identifier or message[IDENTIFIER] == sent[IDENTIFIER]
    return message[0] == reply and message[1] == 0 and same_identifier and message[6:] == sent[6:]


def _only_replies(raw: socket.socket, family: int) -> None:
    """Make the kernel pass only echo replies to a raw ICMP socket (raw(7), RFC 3542 section 3.2)."""
    if family == socket.AF_INET:
        raw.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("=I", ~(1 << ECHO_REPLY_4) & 0xFFFFFFFF))
    else:
        blocked = [0xFFFFFFFF] * 8
        blocked[ECHO_REPLY_6 // 32] &= ~(1 << ECHO_REPLY_6 % 32)
        raw.setsockopt(socket.IPPROTO_ICMPV6, ICMPV6_FILTER, struct.pack("=8I", *blocked))

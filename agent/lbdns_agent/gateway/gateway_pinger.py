"""Pings the gateway over IPv4 or IPv6, sending one ICMP echo request at a time.

Uses a ping socket if permitted, otherwise a raw socket. Builds the echo requests, and recognises the replies.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from lbdns_agent.gateway.default_route import Gateway, find_gateway
from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.non_blocking_sensors import READABLE, DescriptorWait, ReadingSteps

TIMEOUT: Final = 1.0  # seconds to wait for a reply
ROUTE_INTERVAL: Final = 5.0  # seconds between two reads of the routing table; it is also read after a lost echo
PAYLOAD: Final = 16  # random bytes: only a host that saw the request can answer it
SOL_RAW: Final = 255  # linux/socket.h
ICMP_FILTER: Final = 1  # linux/icmp.h
ICMPV6_FILTER: Final = 1  # linux/icmpv6.h
SO_TIMESTAMPNS: Final = 35  # asm-generic/socket.h
_TIMESTAMP = struct.Struct("@ll")  # struct timespec
# RFC 792, RFC 4443
ECHO_REQUEST_4, ECHO_REPLY_4 = 8, 0
ECHO_REQUEST_6, ECHO_REPLY_6 = 128, 129
_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence
IDENTIFIER: Final = slice(4, 6)
HOW_TO_ALLOW: Final = (
    "ICMP is not permitted; allow it with 'sysctl net.ipv4.ping_group_range=\"0 2147483647\"' "
    "or the capability CAP_NET_RAW"
)


class GatewayPinger:
    """Measures the round-trip time to the gateway returned by ``find``."""

    def __init__(self, find: Callable[[], Gateway | None] = find_gateway) -> None:
        self._find = find
        self._next_route_read = 0.0
        self._gateway: Gateway | None = None
        self._socket: socket.socket | None = None
        self._raw = False
        self._sequence = 0
        self._identifier = os.getpid() & 0xFFFF

    def ping(self) -> ReadingSteps[float]:
        """Return the round-trip time in ms. Raises MissingValueError."""
        gateway = self._find_gateway()
        try:
            connection = self._socket or self._open(gateway)
            return (yield from self._round_trip(connection, gateway))
        except TimeoutError:
            self._next_route_read = 0.0
            raise MissingValueError(f"no reply from the gateway {gateway} within {TIMEOUT:g} s") from None
        except OSError as error:
            self.close()
            raise MissingValueError(f"gateway {gateway}: {error.strerror or error}") from None

    def close(self) -> None:
        """Close the socket. The next ping reads the routing table and opens a new socket."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._next_route_read = None, 0.0

    def _find_gateway(self) -> Gateway:
        now = time.monotonic()
        if now >= self._next_route_read:
            gateway = self._find()
            if gateway != self._gateway:
                self.close()
            self._gateway, self._next_route_read = gateway, now + ROUTE_INTERVAL
        if self._gateway is None:
            raise MissingValueError("the routing table has no default gateway; set one with --gateway ADDRESS")
        return self._gateway

    def _open(self, gateway: Gateway) -> socket.socket:
        protocol = socket.IPPROTO_ICMP if gateway.family == socket.AF_INET else socket.IPPROTO_ICMPV6
        self._raw = False
        try:
            opened = socket.socket(gateway.family, socket.SOCK_DGRAM, protocol)
        except PermissionError:
            try:
                opened = socket.socket(gateway.family, socket.SOCK_RAW, protocol)
            except PermissionError:
                raise MissingValueError(HOW_TO_ALLOW) from None
            self._raw = True
        try:
            if self._raw:
                _only_replies(opened, gateway.family)
            opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            opened.setblocking(False)
            opened.connect(_address(gateway))
        except OSError:
            opened.close()
            raise
        self._socket = opened
        return opened

    def _round_trip(self, connection: socket.socket, gateway: Gateway) -> ReadingSteps[float]:
        version4 = gateway.family == socket.AF_INET
        self._sequence = (self._sequence + 1) & 0xFFFF
        kind = ECHO_REQUEST_4 if version4 else ECHO_REQUEST_6
        sent = echo_request(kind, self._identifier, self._sequence, os.urandom(PAYLOAD))
        start, started = time.time(), time.monotonic()
        connection.send(sent)
        while True:
            yield DescriptorWait(connection.fileno(), READABLE)
            packet, ancillary, _, _ = connection.recvmsg(2048, socket.CMSG_SPACE(_TIMESTAMP.size))
            message = without_ip_header(packet) if self._raw and version4 else packet
            if is_echo_reply(message, sent, any_identifier=not self._raw):
                elapsed = time.monotonic() - started
                # The kernel's time stamp leaves out our own delay; it is useless if the clock was set meanwhile
                stamped = _arrival(ancillary) - start
                return (stamped if 0.0 <= stamped <= elapsed else elapsed) * 1000.0


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

    The identifier must match too, unless ``any_identifier`` is true. ``any_identifier`` is used for ping sockets,
    because the kernel chooses their identifier.
    """
    if len(message) != len(sent) or len(message) < _HEADER.size:
        return False
    reply = ECHO_REPLY_4 if sent[0] == ECHO_REQUEST_4 else ECHO_REPLY_6
    same_identifier = any_identifier or message[IDENTIFIER] == sent[IDENTIFIER]
    return message[0] == reply and message[1] == 0 and same_identifier and message[6:] == sent[6:]


def _arrival(ancillary: Sequence[tuple[int, int, bytes]]) -> float:
    """Return the Unix time when the kernel received a packet (socket(7), SO_TIMESTAMPNS), or infinity if unknown."""
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(value) >= _TIMESTAMP.size:
            seconds, nanoseconds = _TIMESTAMP.unpack_from(value)
            return float(seconds) + float(nanoseconds) / 1e9
    return math.inf


def _only_replies(raw: socket.socket, family: int) -> None:
    """Make the kernel pass only echo replies to a raw ICMP socket (raw(7), RFC 3542 section 3.2)."""
    if family == socket.AF_INET:
        raw.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("=I", ~(1 << ECHO_REPLY_4) & 0xFFFFFFFF))
    else:
        blocked = [0xFFFFFFFF] * 8
        blocked[ECHO_REPLY_6 // 32] &= ~(1 << ECHO_REPLY_6 % 32)
        raw.setsockopt(socket.IPPROTO_ICMPV6, ICMPV6_FILTER, struct.pack("=8I", *blocked))


def _address(gateway: Gateway) -> tuple[str | int, ...]:
    if gateway.family == socket.AF_INET:
        return (gateway.address, 0)
    # A link-local address needs its interface (RFC 4007)
    link_local = gateway.address.lower().startswith("fe80:")
    scope = socket.if_nametoindex(gateway.interface) if link_local and gateway.interface else 0
    return (gateway.address, 0, 0, scope)

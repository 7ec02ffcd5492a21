"""One ICMP echo to the gateway at a time, through a ping socket where that is allowed, else a raw one."""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from lbdns_agent.absent import AbsentError
from lbdns_agent.asides import READABLE, Steps, Wait
from lbdns_agent.gateway import echo
from lbdns_agent.gateway.route import Gateway, find_gateway

PATIENCE: Final = 1.0  # seconds an answer is waited for
LOOK_EVERY: Final = 5.0  # seconds between two looks at the routing table; and after every echo without an answer
PAYLOAD: Final = 16  # bytes of chance: nobody who didn't see the request can answer it
IPPROTO_ICMPV6: Final = socket.IPPROTO_ICMPV6
SOL_RAW: Final = 255  # linux/socket.h
ICMP_FILTER: Final = 1  # linux/icmp.h
ICMPV6_FILTER: Final = 1  # linux/icmpv6.h
SO_TIMESTAMPNS: Final = 35  # asm-generic/socket.h
_TIMESTAMP = struct.Struct("@ll")  # struct timespec
HOW_TO_ALLOW: Final = (
    "ICMP is not permitted; allow it with 'sysctl net.ipv4.ping_group_range=\"0 2147483647\"' "
    "or the capability CAP_NET_RAW"
)


class Pinger:
    """Measures the round trip to the gateway that ``find`` names."""

    def __init__(self, find: Callable[[], Gateway | None] = find_gateway) -> None:
        self._find = find
        self._look_at = 0.0
        self._gateway: Gateway | None = None
        self._socket: socket.socket | None = None
        self._raw = False
        self._sequence = 0
        self._identifier = os.getpid() & 0xFFFF

    def ping(self) -> Steps[float]:
        """The round trip in ms. Raises AbsentError."""
        gateway = self._look()
        try:
            connection = self._socket or self._open(gateway)
            return (yield from self._round_trip(connection, gateway))
        except TimeoutError:
            self._look_at = 0.0
            raise AbsentError(f"no echo from the gateway {gateway} within {PATIENCE:g} s") from None
        except OSError as error:
            self.close()
            raise AbsentError(f"gateway {gateway}: {error.strerror or error}") from None

    def close(self) -> None:
        """Let go of the socket, and look for the gateway anew."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._look_at = None, 0.0

    def _look(self) -> Gateway:
        now = time.monotonic()
        if now >= self._look_at:
            gateway = self._find()
            if gateway != self._gateway:
                self.close()
            self._gateway, self._look_at = gateway, now + LOOK_EVERY
        if self._gateway is None:
            raise AbsentError("there is no default gateway in the routing table; name one with --gateway ADDRESS")
        return self._gateway

    def _open(self, gateway: Gateway) -> socket.socket:
        protocol = socket.IPPROTO_ICMP if gateway.family == socket.AF_INET else IPPROTO_ICMPV6
        self._raw = False
        try:
            opened = socket.socket(gateway.family, socket.SOCK_DGRAM, protocol)
        except PermissionError:
            try:
                opened = socket.socket(gateway.family, socket.SOCK_RAW, protocol)
            except PermissionError:
                raise AbsentError(HOW_TO_ALLOW) from None
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

    def _round_trip(self, connection: socket.socket, gateway: Gateway) -> Steps[float]:
        version4 = gateway.family == socket.AF_INET
        self._sequence = (self._sequence + 1) & 0xFFFF
        kind = echo.ECHO_REQUEST_4 if version4 else echo.ECHO_REQUEST_6
        sent = echo.request(kind, self._identifier, self._sequence, os.urandom(PAYLOAD))
        start, started = time.time(), time.monotonic()
        connection.send(sent)
        while True:
            yield Wait(connection.fileno(), READABLE)
            packet, ancillary, _, _ = connection.recvmsg(2048, socket.CMSG_SPACE(_TIMESTAMP.size))
            message = echo.without_ip_header(packet) if self._raw and version4 else packet
            if echo.is_reply(message, sent, any_identifier=not self._raw):
                elapsed = time.monotonic() - started
                # The reply may have lain here for a while; not so when the clock was set meanwhile
                stamped = _arrival(ancillary) - start
                return (stamped if 0.0 <= stamped <= elapsed else elapsed) * 1000.0


def _arrival(ancillary: Sequence[tuple[int, int, bytes]]) -> float:
    """When the kernel received a packet, Unix seconds (socket(7), SO_TIMESTAMPNS); infinite if it doesn't tell."""
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(value) >= _TIMESTAMP.size:
            seconds, nanoseconds = _TIMESTAMP.unpack_from(value)
            return float(seconds) + float(nanoseconds) / 1e9
    return math.inf


def _only_replies(raw: socket.socket, family: int) -> None:
    """Have the kernel drop what is no echo reply (raw(7), RFC 3542 section 3.2): all ICMP comes to a raw socket."""
    if family == socket.AF_INET:
        raw.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("=I", ~(1 << echo.ECHO_REPLY_4) & 0xFFFFFFFF))
    else:
        blocked = [0xFFFFFFFF] * 8
        blocked[echo.ECHO_REPLY_6 // 32] &= ~(1 << echo.ECHO_REPLY_6 % 32)
        raw.setsockopt(IPPROTO_ICMPV6, ICMPV6_FILTER, struct.pack("=8I", *blocked))


def _address(gateway: Gateway) -> tuple[str | int, ...]:
    if gateway.family == socket.AF_INET:
        return (gateway.address, 0)
    # A link-local address means nothing without its interface (RFC 4007)
    link_local = gateway.address.lower().startswith("fe80:")
    scope = socket.if_nametoindex(gateway.interface) if link_local and gateway.interface else 0
    return (gateway.address, 0, 0, scope)

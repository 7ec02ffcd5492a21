"""Pings the gateway over IPv4 or IPv6, sending one ICMP echo request at a time."""

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
from lbdns_shared.icmp_echo import (
    ECHO_REQUEST_4,
    ECHO_REQUEST_6,
    HOW_TO_ALLOW,
    echo_request,
    is_echo_reply,
    open_echo_socket,
    without_ip_header,
)

TIMEOUT: Final = 1.0  # seconds to wait for a reply
ROUTE_INTERVAL: Final = 5.0  # seconds between two reads of the routing table; it is also read after a lost echo
PAYLOAD: Final = 16  # random bytes: only a host that saw the request can answer it
SO_TIMESTAMPNS: Final = 35  # asm-generic/socket.h
_TIMESTAMP = struct.Struct("@ll")  # struct timespec


class GatewayPinger:
    """A sensor for the round-trip time to the gateway. ``find`` is a function that returns the gateway."""

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
        """Close the socket. The next ping reads the routing table again and opens a new socket."""
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
        try:
            opened, self._raw = open_echo_socket(gateway.family)
        except PermissionError:
            raise MissingValueError(HOW_TO_ALLOW) from None
        try:
            opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
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


def _arrival(ancillary: Sequence[tuple[int, int, bytes]]) -> float:
    """Return the Unix time at which the kernel received a packet, or infinity if it is unknown.

    The kernel adds the time to the packet's control messages (socket(7), SO_TIMESTAMPNS).
    """
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(value) >= _TIMESTAMP.size:
            seconds, nanoseconds = _TIMESTAMP.unpack_from(value)
            return float(seconds) + float(nanoseconds) / 1e9
    return math.inf


def _address(gateway: Gateway) -> tuple[str | int, ...]:
    if gateway.family == socket.AF_INET:
        return (gateway.address, 0)
    # A link-local address needs its interface (RFC 4007)
    link_local = gateway.address.lower().startswith("fe80:")
    scope = socket.if_nametoindex(gateway.interface) if link_local and gateway.interface else 0
    return (gateway.address, 0, 0, scope)

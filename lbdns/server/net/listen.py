"""Opening the sockets that DNS is answered on: several beside each other if several processes answer."""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import Final

from lbdns.endpoint import Endpoint
from lbdns.errors import ListenError
from lbdns.listening import bind, bound_endpoint, enlarge

BACKLOG: Final = 256  # connections the kernel accepts for us before we do
RECEIVE_BUFFER: Final = 4 * 1024 * 1024  # bytes; a burst waits here while the loop does something else
WILDCARDS: Final = ("0.0.0.0", "::")
# Linux's numbers; the socket module does not name the first
IP_PKTINFO: Final = 8
_KEY: Final = "[server] listen"
_PORT_ZERO_TRIES: Final = 20  # a port that is free for UDP may be taken for TCP

Pair = tuple[socket.socket, socket.socket]  # UDP and TCP


def open_udp(endpoint: Endpoint, beside: bool = False) -> socket.socket:
    """A non-blocking UDP socket bound to ``endpoint``, ``beside`` another of ours that shares its port. Raises
    ListenError."""
    sock = bind(endpoint, socket.SOCK_DGRAM, "DNS over UDP", _KEY, beside=beside)
    make_ready(sock)
    return sock


def open_tcp(endpoint: Endpoint, beside: bool = False) -> socket.socket:
    """A listening, non-blocking TCP socket on ``endpoint``, ``beside`` another of ours that shares its port. Raises
    ListenError."""
    return bind(endpoint, socket.SOCK_STREAM, "DNS over TCP", _KEY, backlog=BACKLOG, beside=beside)


def make_ready(sock: socket.socket) -> None:
    """Set a bound UDP socket up: on a wildcard address it tells which address was asked, so that the answer can leave
    from there."""
    enlarge(sock, RECEIVE_BUFFER)
    if bound_endpoint(sock).host in WILDCARDS:  # as the kernel writes it: "::0" is one too
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)


def open_pair(endpoint: Endpoint) -> Pair:
    """UDP and TCP on the same port, also if any will do (0). Nobody else has it, or can have it. Raises ListenError."""
    for attempt in range(_PORT_ZERO_TRIES):
        udp = open_udp(endpoint)
        try:
            return udp, open_tcp(bound_endpoint(udp))
        except ListenError as error:
            udp.close()
            taken = isinstance(error.__context__, OSError) and error.__context__.errno == errno.EADDRINUSE
            if endpoint.port or not taken or attempt == _PORT_ZERO_TRIES - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def share(sock: socket.socket) -> None:
    """Let further sockets of ours have the port of ``sock``, between which the kernel divides what arrives.

    Only now: the first one was bound without, so that a second server that is started by mistake gets an error instead
    of half of the queries.
    """
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)

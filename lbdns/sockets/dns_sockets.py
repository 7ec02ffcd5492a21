"""Open UDP and TCP sockets for DNS, several on one port if several processes answer."""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import Final

from lbdns.sockets.binding import bind, bound_endpoint, enlarge
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError

BACKLOG: Final = 256  # connections that wait to be accepted
RECEIVE_BUFFER: Final = 4 * 1024 * 1024  # bytes; a burst of queries waits here while the event loop is busy
WILDCARDS: Final = ("0.0.0.0", "::")
# Linux's number, which the socket module lacks
IP_PKTINFO: Final = 8
_KEY: Final = "[server] listen"
_PORT_ZERO_TRIES: Final = 20  # a port that is free for UDP may be taken for TCP

Pair = tuple[socket.socket, socket.socket]  # UDP and TCP


def open_udp(endpoint: Endpoint, beside: bool = False) -> socket.socket:
    """Return a non-blocking UDP socket bound to ``endpoint``. Raises ListenError. ``beside``: the socket shares its
    port with another socket of this server."""
    sock = bind(endpoint, socket.SOCK_DGRAM, "DNS over UDP", _KEY, beside=beside)
    make_ready(sock)
    return sock


def open_tcp(endpoint: Endpoint, beside: bool = False) -> socket.socket:
    """Return a listening, non-blocking TCP socket. ``beside``: the socket shares its port with another socket of this
    server. Raises ListenError."""
    return bind(endpoint, socket.SOCK_STREAM, "DNS over TCP", _KEY, backlog=BACKLOG, beside=beside)


def make_ready(sock: socket.socket) -> None:
    """Set up a bound UDP socket: on a wildcard address the kernel reports the address of each query, so that the answer
    can leave from it."""
    enlarge(sock, RECEIVE_BUFFER)
    if bound_endpoint(sock).host in WILDCARDS:  # as the kernel writes it: "::0" is a wildcard too
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)


def open_pair(endpoint: Endpoint) -> Pair:
    """Return a UDP and a TCP socket on the same port, which no other program can share; port 0 means any free port.
    Raises ListenError."""
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
    """Let further sockets of this server share the port of ``sock``; the kernel divides the queries among them.

    The first socket is bound without this option, so that a second server started by mistake gets an error instead of
    half of the queries.
    """
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)

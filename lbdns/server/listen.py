"""Opening the sockets that DNS is answered on."""

from __future__ import annotations

import socket
from typing import Final

from lbdns.endpoint import Endpoint
from lbdns.listening import bind, bound_endpoint

BACKLOG: Final = 256  # connections the kernel accepts for us before we do
RECEIVE_BUFFER: Final = 4 * 1024 * 1024  # bytes; a burst waits here while the loop does something else
WILDCARDS: Final = ("0.0.0.0", "::")
# Linux's numbers; the socket module does not name the first
IP_PKTINFO: Final = 8
_KEY: Final = "[server] listen"


def open_udp(endpoint: Endpoint) -> socket.socket:
    """A non-blocking UDP socket bound to ``endpoint``. Raises ListenError.

    On a wildcard address it tells which address was asked, so that the answer can leave from there.
    """
    sock = bind(endpoint, socket.SOCK_DGRAM, "DNS over UDP", _KEY)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    if bound_endpoint(sock).host in WILDCARDS:  # as the kernel writes it: "::0" is one too
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    return sock


def open_tcp(endpoint: Endpoint) -> socket.socket:
    """A listening, non-blocking TCP socket on ``endpoint``. Raises ListenError."""
    return bind(endpoint, socket.SOCK_STREAM, "DNS over TCP", _KEY, backlog=BACKLOG)

"""Opening the sockets that DNS is answered on."""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from lbdns.endpoint import Endpoint
from lbdns.errors import ListenError

BACKLOG: Final = 256  # connections the kernel accepts for us before we do
RECEIVE_BUFFER: Final = 4 * 1024 * 1024  # bytes; a burst waits here while the loop does something else
WILDCARDS: Final = ("0.0.0.0", "::")
# Linux's numbers; the socket module does not name the first
IP_PKTINFO: Final = 8

_ADVICE: Final = {
    errno.EADDRINUSE: "another program has it; 'ss -lnp' shows which. Stop it or listen elsewhere",
    errno.EADDRNOTAVAIL: "this machine has no such address; 'ip address' shows those it has",
    errno.EACCES: "ports below 1024 need root or CAP_NET_BIND_SERVICE",
    errno.EPERM: "ports below 1024 need root or CAP_NET_BIND_SERVICE",
}


def open_udp(endpoint: Endpoint) -> socket.socket:
    """A non-blocking UDP socket bound to ``endpoint``. Raises ListenError.

    On a wildcard address it tells which address was asked, so that the answer can leave from there.
    """
    sock = _bound(endpoint, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    if bound_endpoint(sock).host in WILDCARDS:  # as the kernel writes it: "::0" is one too
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    return sock


def open_tcp(endpoint: Endpoint) -> socket.socket:
    """A listening, non-blocking TCP socket on ``endpoint``. Raises ListenError."""
    sock = _bound(endpoint, socket.SOCK_STREAM)
    try:
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise _listen_error(endpoint, "TCP", error) from None
    return sock


def _bound(endpoint: Endpoint, kind: socket.SocketKind) -> socket.socket:
    protocol = "UDP" if kind == socket.SOCK_DGRAM else "TCP"
    try:
        family, _, _, _, address = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=kind, flags=socket.AI_NUMERICHOST | socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind)
    except OSError as error:
        raise _listen_error(endpoint, protocol, error) from None
    try:
        sock.setblocking(False)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise _listen_error(endpoint, protocol, error) from None
    return sock


def _listen_error(endpoint: Endpoint, protocol: str, error: OSError) -> ListenError:
    if isinstance(error, socket.gaierror):  # numbers of its own, and the only cause an address can have
        return ListenError(f"{endpoint}: DNS over {protocol}: this machine has no such interface or kind of address")
    reason = os.strerror(error.errno) if error.errno else str(error)
    advice = _ADVICE.get(error.errno or 0)
    return ListenError(f"{endpoint}: DNS over {protocol}: {reason}" + (f": {advice}" if advice else ""))


def bound_endpoint(sock: socket.socket) -> Endpoint:
    """Where a socket is bound, with the real port where 0 was asked for."""
    host, port = sock.getsockname()[:2]
    return Endpoint(host, port)

"""Binding sockets to listen on, the same for DNS, reports and pages, with errors a person can act on."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Final

from lbdns.endpoint import Endpoint
from lbdns.errors import ListenError

_SO_RCVBUFFORCE: Final = 33  # socket(7); beyond net.core.rmem_max, for root
_SO_MEMINFO: Final = 55  # linux/sock_diag.h: nine u32, the last is the datagrams dropped on a full buffer
_MEMINFO: Final = struct.Struct("9I")


def bind(
    endpoint: Endpoint,
    kind: socket.SocketKind,
    purpose: str,
    key: str,
    share: bool = False,
    backlog: int = 0,
    beside: bool = False,
) -> socket.socket:
    """A non-blocking socket bound to ``endpoint``, whose host is a literal address.

    ``purpose`` and ``key`` (of the configuration) name it in errors. ``share``: beside one of our own that allows it.
    ``beside``: with a part of what arrives there, between ours (SO_REUSEPORT).
    With a ``backlog`` it listens already: a port that another program listens on shows only then. Raises ListenError.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=kind, flags=socket.AI_NUMERICHOST | socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind)
    except OSError as error:
        raise _listen_error(endpoint, kind, purpose, key, error) from None
    try:
        sock.setblocking(False)
        if share or kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if beside:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        if backlog:
            sock.listen(backlog)
    except OSError as error:
        sock.close()
        raise _listen_error(endpoint, kind, purpose, key, error) from None
    return sock


def _listen_error(endpoint: Endpoint, kind: socket.SocketKind, purpose: str, key: str, error: OSError) -> ListenError:
    if isinstance(error, socket.gaierror):  # numbers of its own, and the only cause an address can have
        what = "this machine has no such interface or kind of address"
    elif error.errno in (errno.EACCES, errno.EPERM):
        what = "not permitted. Ports below 1024 need root or CAP_NET_BIND_SERVICE"
    elif error.errno == errno.EADDRINUSE:
        option = "-ltnp" if kind == socket.SOCK_STREAM else "-lunp"
        what = f"taken. 'ss {option} sport = :{endpoint.port}' shows by whom; or set another {key}"
    elif error.errno == errno.EADDRNOTAVAIL:
        what = f"is no address of this machine. 'ip address' lists them; or set another {key}"
    else:
        what = os.strerror(error.errno) if error.errno else str(error)
    return ListenError(f"{purpose}: {endpoint}: {what}")


def enlarge(sock: socket.socket, size: int) -> None:
    """Have the receive buffer of ``sock`` hold ``size`` bytes, or as much as the system allows us."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def overflows(sock: socket.socket) -> int:
    """Datagrams that the kernel has dropped so far because the receive buffer of ``sock`` was full; 0 once it is
    closed."""
    try:
        return int(_MEMINFO.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[8])
    except (OSError, struct.error):
        return 0


def bound_endpoint(sock: socket.socket) -> Endpoint:
    """Where a socket is bound, with the real port where 0 was asked for."""
    host, port = sock.getsockname()[:2]
    return Endpoint(host, port)

"""Binds sockets for DNS, reports and the web interface. Error messages state how to solve the problem."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Final

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError

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
    """Return a non-blocking socket bound to ``endpoint``, whose host must be a literal address.

    Error messages contain the socket's ``purpose`` and its configuration ``key``. With ``share``, the address may
    overlap with that of another socket in this process (SO_REUSEADDR). With ``beside``, the socket shares its port, and
    the traffic to that port, with other sockets of this program (SO_REUSEPORT). If ``backlog`` is given, the socket
    listens. TCP sockets without a backlog do not listen, so several of them can be bound to the same port. Raises
    ListenError.
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
    if isinstance(error, socket.gaierror):  # its error numbers are not errno's
        what = "this machine has no such interface or address family"
    elif error.errno in (errno.EACCES, errno.EPERM):
        what = "not permitted; ports below 1024 require root or CAP_NET_BIND_SERVICE"
    elif error.errno == errno.EADDRINUSE:
        option = "-ltnp" if kind == socket.SOCK_STREAM else "-lunp"
        command = f"ss {option} sport = :{endpoint.port}"
        what = f"the port is in use; '{command}' shows which program uses it. Stop that program, or change {key}"
    elif error.errno == errno.EADDRNOTAVAIL:
        what = f"not an address of this machine; change {key}. 'ip address' lists this machine's addresses"
    else:
        what = os.strerror(error.errno) if error.errno else str(error)
    return ListenError(f"{purpose}: {endpoint}: {what}")


def enlarge(sock: socket.socket, size: int) -> None:
    """Enlarge the receive buffer of ``sock`` to ``size`` bytes, or to the system's limit if that is lower.

    A buffer that is already larger, such as that of an inherited socket, keeps its size.
    """
    if _receive_buffer(sock) >= size:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
    except OSError:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
            if _receive_buffer(trial) > _receive_buffer(sock):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def _receive_buffer(sock: socket.socket) -> int:
    """Return the size of a receive buffer in bytes, as a program set it: Linux stores and returns twice the size that
    was set."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def overflows(sock: socket.socket) -> int:
    """Return the number of datagrams that the kernel dropped because the receive buffer of ``sock`` was full.

    The result is 0 once ``sock`` is closed.
    """
    try:
        return int(_MEMINFO.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[8])
    except (OSError, struct.error):
        return 0


def bound_endpoint(sock: socket.socket) -> Endpoint:
    """Return a socket's address, with the actual port even if the socket was bound to port 0."""
    host, port = sock.getsockname()[:2]
    return Endpoint(host, port)
